"""What real objects and libraries define and need, and which variables may change between calls."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.symbols import (
    defined_symbols,
    mutable_variables,
    needed_libraries,
    undefined_symbols,
)
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: apt-get install gcc")
SOURCE = """\
double cos(double);
extern int elsewhere;
int here = 1;
__attribute__((visibility("hidden"))) int hidden(void) { return here + elsewhere; }
static int own(int n) { return n; }
__attribute__((weak)) int perhaps(void);
double shown(int n) { return cos(n) + hidden() + own(n) + (perhaps ? perhaps() : 0); }
"""


def test_an_object_needs_what_it_does_not_define_and_a_library_names_others(tmp_path):
    write_files(tmp_path, {"a.c": SOURCE})
    subprocess.run(["gcc", "-O0", "-fPIC", "-c", "a.c"], cwd=tmp_path, check=True)
    assert undefined_symbols(tmp_path / "a.o") == {"cos", "elsewhere"}
    assert {"here", "hidden", "shown", "own"} <= defined_symbols(tmp_path / "a.o")
    subprocess.run(["gcc", "-shared", "a.o", "-Wl,--no-as-needed", "-lm", "-o", "a.so"], cwd=tmp_path, check=True)
    assert {"hidden", "shown"} <= defined_symbols(tmp_path / "a.so")
    assert "cos" not in defined_symbols(tmp_path / "a.so")
    assert "libm.so.6" in needed_libraries(tmp_path / "a.so")
    assert needed_libraries(tmp_path / "a.o") == []


def test_what_is_no_elf_file_is_named(tmp_path):
    write_files(tmp_path, {"a.so": "text"})
    for asked in (defined_symbols, undefined_symbols, needed_libraries, mutable_variables):
        with pytest.raises(BuildError, match=r"a\.so: not an ELF file that can be read"):
            asked(tmp_path / "a.so")


KEEPING = """\
static int counter;
static __thread int of_thread;
int exported = 3;
static const int table[3] = {1, 2, 3};
static const char *const names[] = {"a", "b"};
const char *f(int i) { static long calls; calls++; of_thread++; counter += exported + table[i]; return names[i & 1]; }
"""


def built(folder, source: str, *flags: str):
    write_files(folder, {"source.c": source})
    argv = ["gcc", *flags, "-O2", "-shared", "-fPIC", "source.c", "-o", "library.so"]
    subprocess.run(argv, cwd=folder, check=True)
    return folder / "library.so"


@pytest.mark.parametrize("flags", [(), ("-flto",), ("-fno-pie", "-g")])
def test_variables_that_may_change_are_named_and_constants_are_not(tmp_path, flags):
    assert mutable_variables(built(tmp_path, KEEPING, *flags)) == ["calls.0", "counter", "exported", "of_thread"]


def test_a_library_without_state_has_none_and_a_stripped_one_does_not_tell(tmp_path):
    pure = "int f(const int *x) { static const int t[2] = {4, 5}; return x[0] + t[x[1] & 1]; }"
    assert mutable_variables(built(tmp_path, pure)) == []
    with pytest.raises(BuildError, match="is stripped, so its variables are not known: leave -s out"):
        mutable_variables(built(tmp_path, pure, "-s"))
