"""Features of machine code: of a listing, of what gcc makes, and of files that are none of it."""

from __future__ import annotations

import math
import platform
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pytest_compileiq.toolchains.machine_code.features import described, features_of

needs_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("objdump") is None, reason="needs objdump on x86-64"
)
LISTING = """
kernel.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001100 <kernel>:
    1100:\tendbr64
    1104:\tsub    $0x18,%rsp
    1108:\tmov    %rdi,0x8(%rsp)
    1110:\tvmovups (%rsi,%rax,4),%ymm0
    1114:\tvfmadd213ps (%rdx,%rax,4),%ymm1,%ymm0
    1118:\tvmovups %ymm0,(%rdi,%rax,4)
    111c:\tjne    1110 <kernel+0x10>
    1120:\tvaddss %xmm0,%xmm1,%xmm1
    1124:\tcmp    %rax,%rcx
    1128:\tjg     1104 <kernel+0x4>
    112c:\tret
    112d:\tcs nopw 0x0(%rax,%rax,1)

0000000000001140 <other>:
    1140:\trep stos %al,%es:(%rdi)
    1142:\tjmp    1100 <kernel>
"""
SUM_C = "float sum(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"


def counts(listing: str) -> dict[str, int]:
    return {name: round(math.expm1(value)) for name, value in described(listing).items()}


def test_instructions_are_counted_by_kind_and_again_in_innermost_loops():
    found = counts(LISTING)
    assert (found["instructions"], found["padding"], found["loads"], found["stores"], found["spills"]) == (
        12,
        2,
        2,
        3,
        1,
    )
    assert (found["ymm"], found["scalar"], found["fused"], found["branches"]) == (3, 1, 1, 2)
    assert (found["loops"], found["innermost loops"], found["longest innermost loop"]) == (2, 1, 4)
    assert (found["inner instructions"], found["inner loads"], found["inner stores"], found["inner fused"]) == (
        4,
        2,
        1,
        1,
    )


def test_a_jump_into_another_function_is_no_loop():
    assert "inner jumps" not in counts(LISTING)


@given(some.text(alphabet="0123456789abcdefjmp <>+:\t\n,()%$x-#vaddps ", max_size=400))
def test_no_listing_is_too_odd(text):
    assert all(value >= 0 and math.isfinite(value) for value in described(text).values())
    assert described(text) == described(text)


LINES = some.lists(some.sampled_from([line for line in LISTING.splitlines() if ":\t" in line]), max_size=30)


@given(LINES)
def test_the_kinds_of_a_straight_line_are_those_of_its_instructions(lines):
    straight = [line for line in lines if "\tj" not in line]
    alone = [counts(f"\n0 <f>:\n{line}\n") for line in straight]
    together = counts("\n0 <f>:\n" + "\n".join(straight) + "\n")
    for kind in ("instructions", "padding", "loads", "stores", "spills", "ymm"):
        assert together.get(kind, 0) == sum(each.get(kind, 0) for each in alone)


@needs_x86
@pytest.mark.parametrize("linked", [["-shared", "-fPIC"], ["-c"]], ids=["library", "object"])
def test_vectorised_code_has_other_features(tmp_path, linked):
    (tmp_path / "sum.c").write_text(SUM_C)
    found = {}
    for name, flags in {"plain": ["-O2"], "vector": ["-O3", "-ffast-math", "-mavx2"]}.items():
        subprocess.run(["gcc", *flags, *linked, "sum.c", "-o", name], cwd=tmp_path, check=True)
        found[name] = features_of(tmp_path / name)
    assert "ymm" not in found["plain"] and found["vector"]["ymm"] > 0
    assert found["plain"]["inner scalar"] > 0
    assert found["vector"]["instructions"] > found["plain"]["instructions"]


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"#!/bin/sh\n", None])
def test_what_is_no_machine_code_for_x86_has_none(tmp_path, content):
    path = tmp_path / "kernel.cubin"
    if content is not None:
        path.write_bytes(content)
    assert features_of(path) == {}
