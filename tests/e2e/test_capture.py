"""``acf capture`` runs a real program, in its own interpreter, and ranks what it calls; the program notices nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.files import write_files
from tests.projects import Project
from tests.six_kernels import write_program

ACF = ("-m", "pytest_compileiq.cli")

HELPERS_C = """\
#include <errno.h>
struct pair { int a, b; };
int apply(int (*f)(int), int n) { return f(n) + f(n); }
int increment(int n) { return n + 1; }
double sum(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
void swap(struct pair *p) { int a = p->a; p->a = p->b; p->b = a; }
int fails(void) { errno = 7; return -1; }
"""

# Each prints what it sees; it must see the same when watched. Behind it is what is counted.
CTYPES_PY = """\
import ctypes, sys, threading
library = ctypes.CDLL("./helpers.so", use_errno=True)
class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_int)]
pair = Pair(1, 2)
library.swap(ctypes.byref(pair))
print(pair.a, pair.b)
library.sum.restype = ctypes.c_double
print(library.sum((ctypes.c_double * 3)(1, 2, 3), 3), library["increment"](3))
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
print(library.apply(Callback(lambda n: library.increment(n)), 5), library.apply(library.increment, 5))
typed = Callback(("increment", library), ((1, "n", 41),))
print(typed(), typed(n=1))
library.fails.errcheck = lambda result, function, arguments: (result, function is library.fails, ctypes.get_errno())
print(library.fails(), library.increment(True))
for wrong in (lambda: library.increment(1.5), lambda: library.missing, lambda: typed(m=1)):
    try:
        wrong()
    except Exception as error:
        print(type(error), error)
threads = [threading.Thread(target=lambda: [library.increment(n) for n in range(500)]) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
print(isinstance(library.sum, ctypes._CFuncPtr), sys.argv, __name__, sys.path[0])
"""
CFFI_PY = """\
import cffi, sys
ffi = cffi.FFI()
ffi.cdef('''int apply(int (*f)(int), int n); int increment(int); double sum(const double *, long);
struct pair { int a, b; }; void swap(struct pair *p); int fails(void);''')
library = ffi.dlopen("./helpers.so")
pair = ffi.new("struct pair *", [1, 2])
library.swap(pair)
print(pair.a, pair.b, library.sum(ffi.new("double[]", [1, 2, 3]), 3), library.fails(), ffi.errno)
print(library.apply(library.increment, 5), library.apply(ffi.callback("int(int)", lambda n: library.increment(n)), 5))
increment = library.increment
print(increment(3), increment == ffi.addressof(library, "increment"), isinstance(increment, ffi.CData))
print(ffi.typeof(increment), ffi.cast("void *", increment) == ffi.NULL, bool(increment), increment is library.increment)
for wrong in (lambda: increment("x"), lambda: library.missing, lambda: increment(n=1)):
    try:
        wrong()
    except Exception as error:
        print(type(error), error)
other = cffi.FFI()
other.cdef("struct table { int (*f)(int); }; int increment(int);")
table = other.new("struct table *")
table.f = other.dlopen("./helpers.so").increment
print(table.f(1))
"""


@pytest.fixture(scope="module")
def _made(tmp_path_factory) -> Path:
    root = write_program(tmp_path_factory.mktemp("program"))
    write_files(root, {"helpers.c": HELPERS_C, "by_ctypes.py": CTYPES_PY, "by_cffi.py": CFFI_PY})
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "helpers.c", "-o", "helpers.so"], cwd=root, check=True)
    return root


@pytest.fixture
def program(_made) -> Project:
    return Project(_made)


def plainly(root: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, text=True, input="")
    return done.stdout + done.stderr


def watched(project: Project, *arguments: str, code: int = 0, options: tuple[str, ...] = ()) -> str:
    return project.acf("capture", "--rank-only", *options, "--", sys.executable, *arguments, code=code)


def counted(output: str) -> dict[str, int]:
    """What was called, as it is shown, and how often."""
    rows = re.findall(r"^ *[\d.]+%  +\S+ \S+  +(\d+)  +\S+ \S+  +(\S.*?)(?:  +\S+)?$", output, re.MULTILINE)
    return {called: int(count) for count, called in rows}


def test_the_kernels_of_a_program_are_ranked_with_their_shapes(program):
    output = watched(program, "program.py", "8")
    calls = counted(output)
    assert {name: calls[name] for name in calls if "(" not in name} == dict.fromkeys(
        ("gather", "ragged", "branchy", "stencil", "reduction", "histogram"), 8
    )
    assert calls["(float64[4000], int64[1000], float64[1000], 1000)"] == 6
    assert calls["(float64[4000], int64[3000], float64[3000], 3000)"] == 2
    assert re.search(r"6 functions of 1 library took [\d.]+% of .*; watching took [\d.]+% more \(.* a call\)", output)
    assert "kernels.so" in output
    assert plainly(program.root, "program.py", "8") == f"{output.splitlines()[0]}\n"


@pytest.mark.parametrize(
    ("name", "calls"),
    [("by_ctypes.py", {"increment": 1508, "apply": 2}), ("by_cffi.py", {"increment": 5, "apply": 2})],
)
def test_a_program_sees_the_same_and_every_call_is_counted(program, name, calls):
    if name == "by_cffi.py":
        pytest.importorskip("cffi", reason="no cffi: pip install --group dev")
    plain = plainly(program.root, name, "an argument")
    output = watched(program, name, "an argument")
    assert output.startswith(plain)
    found = {called.partition("(")[0]: count for called, count in counted(output).items() if called[0] != "("}
    assert found == {"sum": 1, "swap": 1, "fails": 1} | calls


def test_what_cffi_keeps_to_itself_is_named(program):
    cffi = pytest.importorskip("cffi", reason="no cffi: pip install --group dev")
    assert "cffi's ./helpers.so is not watched: its declarations keep function" in watched(program, "by_cffi.py")
    compiled = cffi.FFI()
    compiled.set_source("_out_of_line", None)
    compiled.cdef("int increment(int);")
    compiled.compile(tmpdir=str(program.root))
    code = "from _out_of_line import ffi; library = ffi.dlopen('./helpers.so'); print(library.increment(1))"
    output = watched(program, "-c", code)
    assert "'./helpers.so'> is not watched: in API mode and in out-of-line ABI mode cffi calls compiled code" in output
    assert "no function of a shared library was called" in output


def test_functions_taken_before_the_program_began_are_watched(program, tmp_path, monkeypatch):
    taken = f"import ctypes\nincrement = ctypes.CDLL({str(program.root / 'helpers.so')!r}).increment\n"
    write_files(tmp_path, {"taken.py": taken, "usercustomize.py": "import taken", "sitecustomize.py": "import taken"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    output = watched(program, "-c", "import taken; print([taken.increment(n) for n in (1, 1, 1)])")
    assert counted(output) == {"increment(1)": 3}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import sys; print(sys.argv, __name__, sys.path[0]); 1 / 0", "x"),
        ("-Wignore", "-B", "-m", "failing", "-x"),
        ("failing.py", "--rank-only"),
        ("-P", "failing.py"),
        ("broken.py",),
        ("folder",),
        ("-m", "missing"),
        ("-c", "import sys; sys.exit('said')"),
        ("-c", "import atexit, sys; atexit.register(print, 'at the end'); sys.stdin.read(); sys.exit(3)"),
    ],
)
def test_a_program_begins_and_ends_as_without_being_watched(program, arguments):
    failing = (
        "import sys\nprint(sys.argv, __name__, __file__, sys.path[:1] if not sys.flags.safe_path else 0)\n"
        "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))).__module__)\nraise OSError('x')"
    )
    write_files(program.root, {"failing.py": failing, "broken.py": "x = (", "folder/__main__.py": failing})
    plain = plainly(program.root, *arguments)
    said = plainly(program.root, *ACF, "capture", "--rank-only", "--", sys.executable, *arguments)
    own = [line for line in said.splitlines() if line.startswith(("acf: ", "no function of"))]
    assert [line for line in said.splitlines() if line not in own] == plain.splitlines()
    assert "ended with status" in own[-1]


def test_what_the_ranking_leaves_out_is_said(program):
    forking = "import os\nif os.fork() == 0: raise SystemExit\nos.wait()"
    assert "acf: the program forked 1 time" in watched(program, "-c", forking)
    strange = (
        "import ctypes\nclass Odd(int):\n    def __gt__(self, other): raise ValueError('odd')\n"
        "    __lt__ = __gt__\nprint(ctypes.CDLL('./helpers.so').increment(Odd(1)))"
    )
    output = watched(program, "-c", strange, code=1)
    assert output.startswith("2\n")
    assert "the watching itself failed once or more, so calls may be missing (ValueError: odd)" in output
    assert "left no account of its calls" in watched(program, "-c", "import os; os._exit(0)", code=2)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("ls", "-l"), "'ls' is not called python, and the calls of Python programs alone are watched"),
        (("./python7", "x.py"), "there is no interpreter './python7'"),
        ((sys.executable, "-u"), "expected a script, -m MODULE or -c CODE behind python"),
        ((), "expected a program behind the options: … -- python PROGRAM"),
    ],
)
def test_what_is_no_python_program_is_refused_with_what_to_do(program, command, said):
    assert said in program.acf("capture", "--rank-only", "--", *command, code=2)


def test_top_and_share_bound_what_is_shown(program):
    output = watched(program, "program.py", "4", options=("--top", "2"))
    assert len({name for name in counted(output) if "(" not in name}) == 2
    assert "4 more functions took" in output
    assert "5 more functions took" in watched(program, "program.py", "4", options=("--share", "0.01"))
    assert "--rank-only records nothing" in watched(program, "program.py", "4", options=("--to", "x"), code=2)
    assert "expected a count from 1" in watched(program, "program.py", "4", options=("--top", "0"), code=2)
