"""Which variables of a library may change between calls."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.symbols import mutable_variables

KEEPING = """\
static int counter;
static __thread int of_thread;
int exported = 3;
static const int table[3] = {1, 2, 3};
static const char *const names[] = {"a", "b"};
const char *f(int i) { static long calls; calls++; of_thread++; counter += exported + table[i]; return names[i & 1]; }
"""


def built(folder, source: str, *flags: str):
    compiler = shutil.which("gcc")
    assert compiler
    (folder / "source.c").write_text(source)
    argv = [compiler, *flags, "-O2", "-shared", "-fPIC", "source.c", "-o", "library.so"]
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
    (tmp_path / "text").write_text("no library")
    with pytest.raises(BuildError, match="not an ELF file"):
        mutable_variables(tmp_path / "text")
