"""``acf capture`` keeps calls whole: made again without the program, each leaves in memory what it left there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from pytest_compileiq.capture.bundle import Bundle
from tests.files import write_files
from tests.projects import Project
from tests.recorded_calls import made_again
from tests.repository import git
from tests.six_kernels import write_program

SHAPES_C = """\
void shift(double *to, const double *from, long n) { for (long i = n; i-- > 0;) to[i] = from[i] + 1; }
void every_other(double *x, long n, long step) { for (long i = 0; i < n; i++) x[i * step] *= 2; }
long length(const char *text) { long n = 0; while (text[n]) n++; return n; }
void bump(int *count, const double *unused) { if (!unused) ++*count; }
struct point { double x, y; };
void mirror(struct point *p) { double x = p->x; p->x = p->y; p->y = x; }
struct node { struct node *next; };
int depth(struct node *n) { return n ? 1 + depth(n->next) : 0; }
int apply(int (*f)(int), int n) { return f(n); }
int twice(int n) { return 2 * n; }
"""
SHAPES_PY = """\
import ctypes
import numpy as np
lib = ctypes.CDLL("./shapes.so")
P = ctypes.POINTER(ctypes.c_double)
shared = np.arange(20.0)
lib.shift(shared[3:].ctypes.data_as(P), shared.ctypes.data_as(P), ctypes.c_long(16))  # overlapping
lib.every_other.argtypes = [np.ctypeslib.ndpointer(np.float64), ctypes.c_long, ctypes.c_long]
backwards = np.arange(12.0)[10::-2]
lib.every_other(backwards, 6, -2)
lib.length.restype = ctypes.c_long
print(lib.length(b"seven!!"))
count = ctypes.c_int(4)
lib.bump(ctypes.byref(count), None)
lib.bump(ctypes.pointer(count), None)
class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]
point = Point(1, 2)
lib.mirror(ctypes.byref(point))
class Node(ctypes.Structure):
    pass
Node._fields_ = [("next", ctypes.POINTER(Node))]
lib.depth(ctypes.byref(Node()))
lib.apply(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n), 3)
lib.shift.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
lib.shift(shared.ctypes.data, shared.ctypes.data, 20)
for n in range(40):
    lib.twice(n)
print(shared.sum(), backwards.sum(), count.value, point.x)
"""
BY_CFFI_PY = """\
import ctypes
import cffi
import numpy as np
ffi = cffi.FFI()
ffi.cdef('''void shift(double *, const double *, long); void every_other(double *x, long n, long step);
long length(const char *); void bump(int *, const double *); struct point { double x, y; }; void mirror(struct point *);
struct node { struct node *next; }; int depth(struct node *); int twice(int n); int apply(int (*)(int), int);''')
lib = ffi.dlopen("./shapes.so")
shared = np.arange(20.0)
whole = ffi.from_buffer(shared)
lib.shift(ffi.cast("double *", ffi.from_buffer(shared[3:])), ffi.cast("double *", whole), 16)
owned = ffi.new("double[]", [1.0] * 12)
lib.every_other(ffi.addressof(owned, 2), 5, 2)
print(lib.length(b"seven!!"), lib.length(ffi.new("char[]", b"five!")))
count = ffi.new("int *", 4)
lib.bump(count, ffi.NULL)
lib.bump(ffi.from_buffer("int *", np.arange(3, dtype=np.int32)), ffi.NULL)
owned_pair = ffi.new("int[2]", [1, 2])
lib.bump(owned_pair + 1, ffi.NULL)
points = ffi.new("struct point[2]", [(1, 2), (3, 4)])
lib.mirror(ffi.addressof(points, 1))
single = ffi.new("struct point *", (5, 6))
lib.mirror(ffi.addressof(single[0]))
lib.depth(ffi.new("struct node *"))
lib.apply(lib.twice, 3)
nobodys = np.arange(20.0)
lib.every_other(ffi.cast("double *", nobodys.ctypes.data), 10, 2)
lib.shift([0.0] * 3, owned, 2)
for n in range(6):
    lib.twice(n)
    ctypes.CDLL("./shapes.so").twice(n)
try:
    lib.twice("x")
except TypeError as error:
    print(error)
print(shared.sum(), list(owned), count[0], points[1].x, single.x)
"""
NAMES = {"gather", "ragged", "branchy", "stencil", "reduction", "histogram"}


def capture(root: Path, *arguments: str, code: int = 0) -> str:
    return Project(root).acf("capture", *arguments, code=code)


@pytest.fixture(scope="module")
def captured(tmp_path_factory) -> Path:
    root = write_program(tmp_path_factory.mktemp("program"))
    git(root, "init", "-q")
    (root / "said.txt").write_text(capture(root, "--", sys.executable, "program.py", "40"))
    return root


def test_the_recorded_calls_of_all_kernels_give_the_same_again(captured):
    bundle = Bundle(captured / "acf-capture")
    assert set(bundle.names()) == NAMES
    for name in NAMES:
        kernel = bundle.read(name)
        by_size = {shape.calls: [call.number for call in shape.kept] for shape in kernel.shapes}
        assert {calls: len(numbers) for calls, numbers in by_size.items()} == {30: 4, 10: 4}
        assert sorted(numbers[0] for numbers in by_size.values()) == [1, 2]  # of the function's calls
        assert all(made_again(bundle, kernel, call) for call in kernel.kept), name
    changed = {region.before != region.after for call in bundle.read("branchy").kept for region in call.regions}
    assert changed == {True}  # it works in place


def test_what_is_held_is_said_and_kept_out_of_git(captured):
    said = (captured / "said.txt").read_text()
    assert "gather     2       8 of 40" in said
    assert "acf-capture holds data of the program: " in said
    assert "acf-capture" not in git(captured, "status", "--porcelain")
    assert capture(captured, "--show", "acf-capture").splitlines()[0].startswith("kernel")
    again = capture(captured, "--", sys.executable, "program.py", "1", code=2)
    assert "acf-capture is there already: remove it, or name another directory with --to" in again


def test_a_table_that_every_call_is_given_lies_there_once(captured):
    kernel = Bundle(captured / "acf-capture").read("gather")
    table = {call.regions[call.arguments[0].memory.region].before.sha256 for call in kernel.kept}
    assert len(table) == 1
    stored = [path.stem for path in (captured / "acf-capture/data").rglob("*.z")]
    assert len(stored) == len(set(stored)) and table <= set(stored)


def test_memory_is_what_its_object_says_and_what_none_says_is_refused_by_name(tmp_path):
    write_files(tmp_path, {"shapes.c": SHAPES_C, "shapes.py": SHAPES_PY})
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "shapes.c", "-o", "shapes.so"], cwd=tmp_path, check=True)
    plain = subprocess.run([sys.executable, "shapes.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    said = capture(tmp_path, "--", sys.executable, "shapes.py")
    assert said.startswith(plain.stdout)
    for line in (
        "calls of depth (shapes.so): argument 1 is a Node, which holds pointers",
        "calls of apply (shapes.so): argument 1 is a callback",
        "calls of shift (shapes.so): argument 1 is a bare address",
    ):
        assert f"not recorded: {line}" in said
    assert "twice: no recorded call changes memory or has a result, so nothing of it can be compared" in said
    bundle = Bundle(tmp_path / "acf-capture")
    assert set(bundle.names()) == {"shift", "every_other", "length", "bump", "mirror", "twice"}
    for name in bundle.names():
        kernel = bundle.read(name)
        assert all(made_again(bundle, kernel, call) for call in kernel.kept), name
    twice = bundle.read("twice")  # on 40 values
    assert [(shape.shape, shape.calls, len(shape.kept)) for shape in twice.shapes] == [(("int",), 40, 4)]
    (shift,) = bundle.read("shift").kept
    assert len(shift.regions) == 1  # both arguments lie in it
    assert [given.memory.offset for given in shift.arguments[:2]] == [24, 0]
    (backwards,) = bundle.read("every_other").kept
    memory = backwards.arguments[0].memory
    assert (memory.strides, memory.offset, backwards.regions[0].size) == ((-16,), 80, 88)


BARE_PY = """\
import ctypes
import numpy as np
lib = ctypes.CDLL("./shapes.so")
lib.shift.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
lib.length.argtypes = [ctypes.c_void_p]
data = np.arange(20.0)
for n in (8, 9):
    lib.shift(data[n:].ctypes.data, data.ctypes.data, n)
lib.shift(data.ctypes.data, data.ctypes.data, -1)
lib.every_other(ctypes.cast(data.ctypes.data, ctypes.POINTER(ctypes.c_double)), ctypes.c_long(4), ctypes.c_long(2))
print(data.sum())
"""


def test_the_extent_of_a_bare_address_is_what_the_user_says(tmp_path):
    write_files(tmp_path, {"shapes.c": SHAPES_C, "bare.py": BARE_PY})
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "shapes.c", "-o", "shapes.so"], cwd=tmp_path, check=True)
    program = ("--", sys.executable, "bare.py")
    shift = "void shift(double *to, const double *from, long n): to=8*n, from=8*n"
    every_other = "every_other(x, n, step): x=8*((n-1)*step+1)"
    said = capture(tmp_path, "--extents", shift, "--extents", every_other, "--extents", "no(x, n): x=n", *program)
    assert "calls of shift (shapes.so): argument 1 has -8 bytes, by --extents, which are not all memory" in said
    assert "acf: --extents 'no(x, n): x=n': the program calls no function no" in said
    bundle = Bundle(tmp_path / "acf-capture")
    kernels = {name: bundle.read(name) for name in bundle.names()}
    assert {name: kernel.extents for name, kernel in kernels.items()} == {"shift": shift, "every_other": every_other}
    assert all(made_again(bundle, kernel, call) for kernel in kernels.values() for call in kernel.kept)
    regions = {region.size for call in kernels["shift"].kept for region in call.regions}
    assert regions == {128, 144}  # both arguments, side by side, are one
    (call,) = kernels["every_other"].kept
    assert (call.arguments[0].memory.dtype, call.regions[0].size) == ("<f8", 56)
    bad = capture(tmp_path, "--to", "other", "--extents", "shift(to, n): to=8*m", *program, code=2)
    assert "acf: --extents 'shift(to, n): to=8*m': 'm' is none of its arguments, which are to, n" in bad
    assert "190.0" not in bad


def test_what_is_called_through_cffi_is_recorded_and_through_both_is_one_kernel(tmp_path):
    pytest.importorskip("cffi", reason="no cffi: pip install --group dev")
    write_files(tmp_path, {"shapes.c": SHAPES_C, "by_cffi.py": BY_CFFI_PY})
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "shapes.c", "-o", "shapes.so"], cwd=tmp_path, check=True)
    plain = subprocess.run([sys.executable, "by_cffi.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    said = capture(tmp_path, "--", sys.executable, "by_cffi.py")
    assert said.startswith(plain.stdout)
    for line in (
        "calls of depth (shapes.so): argument 1 is a struct node, which holds pointers",
        "calls of apply (shapes.so): argument 1 is a callback",
        "calls of every_other (shapes.so): argument 1 is a pointer whose extent no object tells: pass what ffi.new(…) or",
        "calls of shift (shapes.so): argument 1 is of type list, which cffi copies: pass ffi.new(…) or ffi.from_buffer(…)",
        "calls of twice (shapes.so): argument 1 is no int",
    ):
        assert f"not recorded: {line}" in said
    bundle = Bundle(tmp_path / "acf-capture")
    assert set(bundle.names()) == {"shift", "every_other", "length", "bump", "mirror", "twice"}
    for name in bundle.names():
        kernel = bundle.read(name)
        assert all(made_again(bundle, kernel, call) for call in kernel.kept), name
    assert bundle.read("twice").calls == 13
    (every_other,) = bundle.read("every_other").kept
    memory = every_other.arguments[0].memory
    assert (memory.dtype, memory.offset, memory.extents, every_other.regions[0].size) == ("<f8", 16, (10,), 96)
    into_the_middle = bundle.read("bump").kept[2]
    assert (into_the_middle.arguments[0].memory.offset, into_the_middle.regions[0].size) == (4, 8)
    (shift,) = bundle.read("shift").kept  # whose views overlap, and are known by their own buffers
    assert [given.memory.offset for given in shift.arguments[:2]] == [24, 0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda kernel: kernel | {"schema": 2}, "has schema 2, and this acf reads 1"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["arguments"][0]["memory"].update(offset=1 << 20), "reaches out of its region"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["arguments"][0]["memory"].update(region=9), "is reached by no argument"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["regions"][0]["before"].update(sha256="../../etc"), "is no captured kernel"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["regions"][0]["before"].update(sha256="0" * 64), "is missing"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["regions"][0].update(size=1 << 29), "at most 268435456 are captured"),
        (lambda kernel: kernel["shapes"][0]["kept"][0]["regions"][0].update(size=1 << 33), r"of a shape take \d+ bytes, and at most 2147483648"),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_capture_is_named_and_hides_nothing_else(captured, tmp_path, change, said):
    shutil.copytree(captured / "acf-capture", tmp_path / "copy")
    path = tmp_path / "copy/stencil/kernel.json"
    kernel = json.loads(path.read_text())
    path.write_text(json.dumps(change(kernel) or kernel))
    output = capture(tmp_path, "--show", "copy", code=1)
    assert re.search(said, output)
    assert "copy/stencil/kernel.json" in output or ".z " in output
    assert "gather" in output


def test_content_that_is_not_what_its_name_says_is_damage(captured, tmp_path):
    shutil.copytree(captured / "acf-capture", tmp_path / "copy")
    first, *_ = sorted((tmp_path / "copy/data").rglob("*.z"))
    first.write_bytes(zlib.compress(b"other"))
    assert f"{first.name} does not hold what its name says" in capture(tmp_path, "--show", "copy", code=1)
    assert "nowhere is no capture" in capture(tmp_path, "--show", "nowhere", code=2)
    (tmp_path / "empty").mkdir()
    assert "empty is no capture" in capture(tmp_path, "--show", "empty", code=2)


def test_tests_that_could_not_be_written_are_refused_before_the_program_runs(tmp_path):
    write_files(
        tmp_path, {"project/program.py": "print('ran')\n", "project/pytest.ini": "[pytest]\n", "project/file": ""}
    )
    program = ("--", sys.executable, "program.py")
    to_file = capture(tmp_path / "project", "--tests", "file", *program, code=2)
    assert "--tests file is a file: name a directory" in to_file and "ran" not in to_file
    outside = capture(tmp_path / "project", "--tests", "tests", "--to", "../out", *program, code=2)
    assert "--to ../out lies outside the project" in outside and "ran" not in outside


@pytest.mark.slow
def test_generated_tests_pass_and_are_never_written_over(tmp_path):
    root = write_program(tmp_path / "project")
    write_files(root, {"pytest.ini": "[pytest]\n"})
    program = ("--", sys.executable, "program.py", "1")  # of one shape, so that no noise decides which is first
    said = capture(root, "--top", "2", "--tests", "tests", *program)
    tests = sorted((root / "tests").glob("test_*.py"))
    assert [f"wrote tests/{path.name}" in said for path in tests] == [True, True]
    assert "macros (-D) are not known from a library" in said
    assert "# -D is not known here: like=" in tests[0].read_text()
    project = Project(root)
    assert "2 passed" in project.pytest("--acf-check=off", code=0)
    edited = tests[0].read_text().replace("kernel.check(acf.workload.shape)", "kernel.check(rtol=1e-9)")
    tests[0].write_text(edited)
    shutil.rmtree(root / "acf-capture")
    again = capture(root, "--tests", "tests", *program)
    assert f"tests/{tests[0].name} is there and differs, so tests/{tests[0].name}.new was written:" in again
    assert "-    kernel.check(rtol=1e-9)  # its recorded calls, bit" in again
    assert tests[0].read_text() == edited
    beside = tests[0].with_name(f"{tests[0].name}.new")
    assert beside.read_text() == edited.replace("kernel.check(rtol=1e-9)", "kernel.check(acf.workload.shape)")
    assert f"tests/{tests[1].name} is the same" in again
    (root / "kernels.so").unlink()
    subprocess.run(["gcc", "-shared", "-fPIC", "kernels.c", "-o", "kernels.so"], cwd=root, check=True)
    bare = capture(root, "--top", "1", "--tests", "tests", "--to", "bare", *program)
    assert "kernels.so does not tell its source: compile it with -g, or name it with --source FILE" in bare
