"""``Cc(like=…)`` from tune to replay: what becomes of an artifact when the build's own command changes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

DATABASE = '[{"directory": "/ci/p/build", "file": "/ci/p/src/a.c", "command": "gcc -I../include -O3 -Werror -c a.c"}]'
KERNEL = """\
#include "value.h"
int total(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i] * VALUE; return s; }
"""
TEST = """\
import ctypes
import pytest
from pytest_compileiq import Cc, choice, minimize

@pytest.mark.tune(Cc("src/a.c", like="build"), space={"-O": choice(["s", 1])}, objectives=[minimize("code_bytes")])
def test_total(acf):
    assert acf.build().load().total((ctypes.c_int * 3)(1, 2, 3), 3) == 18
"""


def test_an_artifact_stands_and_falls_with_the_command_that_the_build_records(project) -> None:
    there = project({
        "src/a.c": KERNEL, "include/value.h": "#define VALUE 3\n", "build/compile_commands.json": DATABASE,
        "test_a.py": TEST,
    })  # fmt: skip
    tuned = there.pytest("--tune", "--tune-budget=2", code=0)
    assert "TUNED" in tuned
    assert "like='build': taken without -Werror" in tuned
    recorded = there.one("acf/total/*.toml").read_text()
    assert "/ci/p" not in recorded
    assert str(there.root) not in recorded
    there.edit("build/compile_commands.json", "-O3", "-O2")
    assert "STALE: the compiler's command changed (gone: -O3 -O3; new: -O2 -O2)" in there.pytest(code=1)
    (there.root / "include/value.h").unlink()  # which a build may generate
    assert "or run the build of like= first, where it generates a header" in there.pytest(code=1)
    (there.root / "build/compile_commands.json").unlink()
    assert "cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON" in there.pytest(code=1)


THREADS = """\
static _Thread_local volatile int seen;
static __attribute__((noinline)) int plain(int x) { return x * 3; }
int total(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; seen = s; return seen + plain(s); }
"""


def test_the_change_that_loads_production_s_objects_is_told_where_they_are_proven_and_shipped(project) -> None:
    there = project({
        "src/a.c": THREADS, "test_a.py": TEST.replace("== 18", "== 24"),
        "build/compile_commands.json": DATABASE.replace(" -Werror", ""),
    })  # fmt: skip
    change = (
        "-fPIC -fno-semantic-interposition (added, since production's objects cannot be loaded as they are: "
        "R_X86_64_TPOFF32 against seen; it alters 1 of 2 functions)"
    )
    tuned = there.pytest("--tune", "--tune-budget=2", code=0)
    assert f"compiled with {change}" in tuned
    assert "another checkout" not in tuned  # a copy of the project was built with the change, and is the same
    assert "proven" in there.pytest(code=0).lower()
    there.pytest("--tune", "--tune-budget=0", code=0)  # which proves them again
    assert f"total was proven with {change}: a command without" in there.acf("flags", "total", "--compiler=gcc")
    subprocess.run(["gcc", "-O3", "-c", "src/a.c", "-o", "a.o"], cwd=there.root, check=True)
    said = there.acf("verify-binary", "a.o", code=1)
    assert f"neither proven arm of total (x86-64-gcc12), which is made with {change}" in said


def test_what_a_test_s_own_command_gets_to_be_loaded_is_told_in_the_same_places(project) -> None:
    there = project({"src/a.c": THREADS, "test_a.py": TEST.replace('like="build"', 'flags="-O3"').replace("18", "24")})
    more = "-fPIC -fno-gnu-unique"
    assert f"compiled with {more}: a command without" in there.pytest("--tune", "--tune-budget=2", code=0)
    assert more not in there.pytest(code=0), "a replay says what moved"
    assert f"total was proven with {more}: a command without" in there.acf("flags", "total", "--compiler=gcc")
    subprocess.run(["gcc", "-O3", "-c", "src/a.c", "-o", "a.o"], cwd=there.root, check=True)
    assert f"which is made with {more}" in there.acf("verify-binary", "a.o", code=1)
