"""Metrics of several entry functions as one number; values, and instructions that the real objdump decodes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.metrics import totals, value_of
from pytest_compileiq.toolchains.cc.instructions import count_instructions

NARROW, WIDE = {"registers": 20, "spill_bytes": 4, "code_bytes": 100}, {"registers": 60, "spill_bytes": 8}
ENTRIES = {
    "_Z5scaleIfEvPT_@sm_80": NARROW,
    "_Z5scaleIfEvPT_@sm_90a": WIDE,
    "plain": {"registers": 30, "spill_bytes": 0},
    "host": {"code_bytes": 7},
}
WHOLE = {"registers": 60, "spill_bytes": 12}
VALUES = {
    "registers": 60,
    "spill_bytes": 12,
    "registers of plain": 30,
    "registers of scale<float>": 60,
    "registers of scale<float>@sm_80": 20,
    "spill_bytes of scale*": 12,
    "registers of *": 60,
    "spill_bytes of *": 12,
    "code_bytes of _Z5scale*": 100,
}


@pytest.mark.parametrize(("metric", "value"), VALUES.items())
def test_registers_are_the_largest_and_all_else_is_the_sum_of_what_a_pattern_names(metric: str, value: int) -> None:
    assert value_of(metric, WHOLE, ENTRIES) == value


def test_a_whole_build_is_the_sum_and_the_largest_of_its_entries() -> None:
    together = {"registers": 60, "barriers": 1, "spill_bytes": 12, "code_bytes": 100}
    assert totals([{**NARROW, "barriers": 1}, {**WIDE, "barriers": 1}]) == together


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("instructions", "this build has no 'instructions': it has registers, spill_bytes"),
        ("registers of plian", r"no such entry function \(did you mean 'plain'\?\): it has .*scale<float>@sm_80"),
        ("registers of scale<flaot>", r"did you mean 'scale<float>'"),
        ("registers of scale<flaot>@sm_80", r"did you mean 'scale<float>@sm_80'"),
        ("instructions of plain", "nothing here tells the instructions of one entry function, which has registers, s"),
    ],
)
def test_what_a_build_does_not_have_is_named_with_what_it_has(metric: str, said: str) -> None:
    with pytest.raises(BuildError, match=said):
        value_of(metric, WHOLE, ENTRIES)


# ── instructions ─────────────────────────────────────────────────────────────────────────────────────────────────

needs_binutils = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("objdump")), reason="needs gcc, objdump")
CODE = """\
.section .text.one,"ax"
.globl one, alias
.type one, @function
.type alias, @function
one:
alias:
    nop
    ret
.size one, 2
.size alias, 2
    nop
    nop
.type local, @function
local:
    nop
    ret
.size local, 2
.text
.globl two
.type two, @function
two: ret
.size two, 1
"""


@needs_binutils
def test_a_function_has_its_own_instructions_and_neither_padding_nor_its_neighbours(tmp_path: Path) -> None:
    objects = []
    for name, text in {
        "a": CODE,
        "b": CODE.replace("one", "eins").replace("two", "zwei").replace("alias", "x"),
    }.items():
        (tmp_path / f"{name}.s").write_text(text)
        subprocess.run(["gcc", "-c", f"{name}.s"], cwd=tmp_path, check=True)
        objects.append(tmp_path / f"{name}.o")
    counted = count_instructions(objects)
    assert counted is not None
    assert counted.whole == 14
    assert counted.functions == {"one": 2, "alias": 2, "two": 1, "eins": 2, "x": 2, "zwei": 1}


@needs_binutils
def test_two_sections_of_one_name_cannot_be_counted_by_function(tmp_path: Path) -> None:
    groups = [f'.section .text,"axG",@progbits,{name},comdat\n.globl {name}\n{name}: ret\n' for name in ("f", "g")]
    (tmp_path / "twice.s").write_text("".join(groups))
    subprocess.run(["gcc", "-c", "twice.s"], cwd=tmp_path, check=True)
    counted = count_instructions([tmp_path / "twice.o"])
    assert counted is not None
    assert (counted.whole, counted.functions) == (2, {})
