"""Macros as knobs, as a kernel's author declares them: searched, proven, replayed, shipped."""

from __future__ import annotations

import pytest

from pytest_compileiq.cli.main import main
from tests.projects import Project, make_project

KERNEL_C = """\
#ifndef UNROLL
#define UNROLL 1
#endif
#if TILE == 4
#include "of_four.h"
#else
#define STEP(i) sum += x[i];
#endif

int kernel(const int *x, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i += TILE)
        for (int j = 0; j < TILE; j += UNROLL) {
            STEP(i + j)
#if UNROLL > 1
            STEP(i + j + 1)
#endif
        }
    return sum;
}
"""
TEST_PY = """\
import ctypes

import pytest

from pytest_compileiq import Cc, choice, minimize

DATA = (ctypes.c_int * 64)(*range(64))


@pytest.mark.tune(
    Cc("kernel.c", flags="-O3 -DUNROLL=2", defines={"TILE": 8}),
    space={"-DTILE=": choice([2, 4, 8]), "-DUNROLL=": choice([1, 2]), "-O": choice([2, 3])},
    objectives=[minimize("code_bytes")],
    engine="grid",
)
def test_kernel(acf):
    assert acf.params["TILE"] in (2, 4, 8) and acf.params["UNROLL"] in (1, 2)
    assert not acf.is_baseline or (acf.params["TILE"], acf.params["UNROLL"]) == (8, 2)
    assert acf.build().load().kernel(DATA, 64) == sum(DATA)
"""
HEADER = "#define STEP(i) sum = x[i] + sum;\n"


@pytest.fixture(scope="module")
def with_macros(tmp_path_factory) -> Project:
    """A project with a proven artifact whose macros include a header that the baseline does not."""
    files = {"kernel.c": KERNEL_C, "of_four.h": HEADER, "test_kernel.py": TEST_PY.replace("[2, 4, 8])", "[4])")}
    made = make_project(tmp_path_factory.mktemp("macros"), files)
    said = made.pytest("--tune", code=0)
    assert "add to [pytest] of pytest.ini: acf_options = -DTILE= -DUNROLL=" in said
    return made


def test_a_macros_value_is_in_the_options_file_and_in_the_knobs(with_macros):
    options = with_macros.one("acf/kernel/*.acf").read_text().splitlines()
    assert "-DTILE=4" in options and any(option.startswith("-DUNROLL=") for option in options)
    assert '"-DTILE=" = 4' in with_macros.one("acf/kernel/*.toml").read_text()


def test_what_a_macro_includes_is_fingerprinted_with_the_sources(with_macros):
    assert '"of_four.h" = ' in with_macros.one("acf/kernel/*.toml").read_text()
    with_macros.pytest(code=0)
    (with_macros.root / "of_four.h").write_text("#define STEP(i) sum ^= x[i];\n")
    try:
        assert "of_four.h (changed): the machine code is another" in with_macros.pytest(code=1)
    finally:
        (with_macros.root / "of_four.h").write_text(HEADER)


def test_a_value_outside_the_tests_space_is_refused(with_macros, tmp_path):
    files = {
        path.relative_to(with_macros.root).as_posix(): path.read_text()
        for path in with_macros.root.glob("acf/kernel/*")
    }
    space_of_two = TEST_PY.replace("[2, 4, 8])", "[2])")
    other = make_project(tmp_path, files | {"kernel.c": KERNEL_C, "of_four.h": HEADER, "test_kernel.py": space_of_two})
    assert "the knob '-DTILE=' has no value 4" in other.pytest(code=1)


def test_a_build_takes_the_macros_once_the_maintainers_name_them(with_macros, monkeypatch, capsys):
    monkeypatch.chdir(with_macros.root)
    assert main(["flags", "kernel", "--compiler", "gcc"]) != 0
    assert "acf_options = -DTILE= -DUNROLL=" in capsys.readouterr().err
    (with_macros.root / "pytest.ini").write_text("[pytest]\nacf_options = -DTILE= -DUNROLL=\n")
    assert main(["flags", "kernel", "--compiler", "gcc"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("@") and "is compiled with TILE = 4, UNROLL = " in said.err
    assert main(["check"]) == 0


def test_a_misspelt_macro_is_answered_with_the_one_that_the_source_names(tmp_path):
    test_py = TEST_PY.replace('"-DTILE="', '"-DTILES="')
    made = make_project(tmp_path, {"kernel.c": KERNEL_C, "of_four.h": HEADER, "test_kernel.py": test_py})
    assert "names the macro 'TILES' (did you mean 'TILE'?)" in made.pytest("--tune", code=1)


def test_a_macro_that_the_source_defines_itself_is_refused_with_what_to_write(tmp_path):
    made = make_project(
        tmp_path, {"kernel.c": "#define TILE 16\n" + KERNEL_C, "of_four.h": HEADER, "test_kernel.py": TEST_PY}
    )
    said = made.pytest("--tune", code=1)
    assert "the source defines TILE as 16, whatever -DTILE says: write #ifndef TILE before that line" in said


COMMAND = """\
import pytest

from pytest_compileiq import Command, choice, minimize


@pytest.mark.tune(
    Command(["gcc -O2 {options} -fPIC -c {source} -o {out_dir}/k.o", "gcc -shared {out_dir}/k.o -o {out}"],
            sources="kernel.c", depends="of_four.h", defines={"TILE": 8}),
    space={"-DTILE=": choice([2, 8])}, objectives=[minimize("code_bytes")], engine="grid",
)
def test_kernel(acf):
    assert acf.params["TILE"] in (2, 8)
    acf.build()
"""


def test_a_command_of_ones_own_takes_macros_where_its_options_stand(tmp_path):
    made = make_project(tmp_path, {"kernel.c": KERNEL_C, "of_four.h": HEADER, "test_kernel.py": COMMAND})
    assert "1 tuned" in made.pytest("--tune", code=0)
    text = made.one("acf/kernel/*.toml").read_text()
    assert '"-DTILE=8",\n    "{options}"' in text and made.one("acf/kernel/*.acf").read_text() == "-DTILE=2\n"
    made.pytest(code=0)
