"""``acf capture --validate``: a program confirms the artifacts of its kernels, or contradicts them, and that counts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captured_tests import captured_test
from tests.files import write_files
from tests.projects import UNREDUCED_INI, Project

pytestmark = pytest.mark.slow

KERNELS_C = """\
void branchy(double *x, long n) {
    for (long i = 0; i < n; i++) x[i] = x[i] > 0.5 ? 1 / x[i] : x[i] * x[i];
}

double reduction(const double *x, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += x[i];
    return sum;
}
"""
PROGRAM_PY = """\
import ctypes
import random
import sys
from pathlib import Path

kernels = ctypes.CDLL(str(Path(__file__).parent / "kernels.so"))
kernels.branchy.argtypes, kernels.branchy.restype = [ctypes.POINTER(ctypes.c_double), ctypes.c_long], None
kernels.reduction.argtypes = [ctypes.POINTER(ctypes.c_double), ctypes.c_long]
kernels.reduction.restype = ctypes.c_double

source, total = random.Random(7), 0.0
for step in range(int(sys.argv[1])):
    n = 1000 if step % 4 else 300
    x = (ctypes.c_double * n)(*(source.random() for _ in range(n)))
    kernels.branchy(x, n)
    total += kernels.reduction(x, n)
print(f"total {total:.3f}")
"""
BODY_PY = """\
    kernel.check(rtol=1e-3)
    acf.measure(kernel.call(acf.workload.shape))
"""
# The sum of a loop that is not vectorized is another one: the test's tolerance hides that, and the program shows it.
FLAGS = {"branchy": "", "reduction": "-ffast-math"}
PROGRAM = ("--", sys.executable, "program.py", "40")


@pytest.fixture(scope="module")
def _tuned(tmp_path_factory) -> Path:
    tests = {f"test_{name}.py": captured_test(name, BODY_PY, flags) for name, flags in FLAGS.items()}
    program = {"kernels.c": KERNELS_C, "program.py": PROGRAM_PY, "pytest.ini": UNREDUCED_INI}
    root = write_files(tmp_path_factory.mktemp("program"), program | tests)
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run([compiler, "-O2", "-g", "-shared", "-fPIC", "kernels.c", "-o", "kernels.so"], cwd=root, check=True)
    project = Project(root)
    project.acf("capture", "--", sys.executable, "program.py", "8")
    project.pytest("--tune", code=0)
    return root


@pytest.fixture
def tuned(_tuned, tmp_path) -> Project:
    shutil.copytree(_tuned, tmp_path / "elsewhere")
    return Project(tmp_path / "elsewhere")


def validate(project: Project, *options: str, code: int) -> str:
    return project.acf("capture", "--validate", *options, *PROGRAM, code=code)


def test_a_program_says_of_each_artifact_whether_it_holds_in_it(tuned):
    output = validate(tuned, code=1)
    assert "total 24188.247" in output
    assert (
        "branchy: python program.py 40 confirms it on x86-64\n"
        "  values: 9 calls made by both arms, none differs; the same output\n"
    ) in output
    assert "reduction: python program.py 40 contradicts it on x86-64\n" in output
    assert re.search(
        r"contradicts: the result differs on \d of 9 calls that both arms made, by up to \d\.\de-15", output
    )

    assert "not retired: reduction (x86-64-gcc12); add --retire --yes" in output
    tuned.acf("flags", "reduction", "--compiler", "gcc")

    output = validate(tuned, "--retire", "--yes", code=1)
    assert "reduction for x86-64-gcc12 is retired: builds take the baseline" in output
    refused = tuned.acf("flags", "reduction", "--compiler", "gcc", code=3)
    assert "was retired: python program.py 40 contradicts it on x86-64: the result differs on" in " ".join(
        refused.split()
    )
    tuned.acf("flags", "branchy", "--compiler", "gcc")


def test_floats_may_differ_by_what_is_allowed(tuned):
    output = validate(tuned, "--rtol", "1e-12", code=0)
    assert "9 calls made by both arms, none differs by more than 1e-12 of the largest value; the same output" in output
    assert "2 passed" in tuned.pytest(code=0)


def test_what_the_program_prints_is_compared_where_it_prints_the_same_each_time(tuned):
    tuned.edit("program.py", 'print(f"total {total:.3f}")', 'print("total", kernels.reduction(x, n).hex())')
    output = validate(tuned, "--rtol", "1e-12", code=1)
    assert "branchy: python program.py 40 confirms it" in output  # each was tried alone
    assert "reduction: python program.py 40 contradicts it" in output
    assert "contradicts: the program's output differs" in output
    tuned.edit("program.py", "kernels.reduction(x, n).hex())", '__import__("os").getpid())')
    output = validate(tuned, "--rtol", "1e-12", code=0)
    assert "the program prints something else each time, so its output was not compared" in output


def test_a_program_that_only_a_tuned_kernel_crashes_contradicts_that_one(tuned):
    wide = "(ctypes.c_double * 8)(*[1e16, 1, -1e16, 1] * 2)"
    crash = f"    if kernels.reduction({wide}, 8) == 1:  # 4 with vectors\n        os.abort()\n"
    tuned.edit("program.py", "import ctypes\n", "import ctypes\nimport os\n")
    tuned.edit("program.py", "    total +=", f"{crash}    total +=")
    output = words(validate(tuned, code=1))
    assert "program.py ended by signal 6 and left no account of its calls" in output
    assert "branchy: nothing is known of its calls" in output  # it was tried alone
    assert "reduction: python program.py 40 contradicts it" in output
    assert "contradicts: the program's output differs" in output


def test_a_program_without_an_account_of_its_calls_says_nothing(tuned):
    tuned.edit("program.py", ':.3f}")', ':.3f}", flush=True)\n__import__("os")._exit(0)')
    output = validate(tuned, code=2)
    assert "program.py ended with status 0 and left no account of its calls" in output
    assert "contradicts" not in output and "confirms" not in output


def test_every_run_reads_a_file_from_its_start_and_a_pipe_compares_no_output(tuned):
    tuned.edit("program.py", "range(int(sys.argv[1]))", "range(int(sys.stdin.readline() or 0))")
    argv = [sys.executable, "-m", "pytest_compileiq.cli", "capture", "--validate", "acf-capture", *PROGRAM]
    (tuned.root / "count.txt").write_text("40\n")
    with (tuned.root / "count.txt").open() as file:
        output = subprocess.run(argv, cwd=tuned.root, stdin=file, capture_output=True, text=True).stdout
    assert "9 calls made by both arms, none differs; the same output" in output
    read = subprocess.run(argv, cwd=tuned.root, input="40\n", capture_output=True, text=True)
    assert "9 calls made by both arms, none differs; its output was not compared" in read.stdout
    assert "as where a program reads a pipe (give it a file)" in read.stderr


def test_what_a_program_is_called_with_is_kept_in_bounds_and_an_impossible_tolerance_is_refused_first(tuned):
    output = tuned.acf("capture", "--validate", "acf-capture", "--rtol", "nan", *PROGRAM, code=2)
    assert "--rtol nan: expected how far floats may differ, from 0 to less than 1" in output
    strange = "x" * 3000, b"\xff".decode(errors="surrogateescape")
    long, odd = (
        tuned.acf("capture", "--validate", "acf-capture", "--rtol", "1e-12", *PROGRAM, each) for each in strange
    )
    assert re.search(r"python program.py 40 x{900,1000}… [0-9a-f]{8} confirms it", long)
    assert r"\udcff" in odd
    output = tuned.acf("capture", "--retire", *PROGRAM, code=2)
    assert "--retire requires --validate" in output


def test_a_kernel_may_be_called_through_cffi(tuned):
    pytest.importorskip("cffi")
    opened = """ffi = cffi.FFI()
ffi.cdef("double reduction(const double *, long);")
through = ffi.dlopen(str(Path(__file__).parent / "kernels.so"))
"""
    tuned.edit("program.py", "import ctypes\n", "import ctypes\nimport cffi\n")
    tuned.edit("program.py", "source, total", f"{opened}source, total")
    tuned.edit("program.py", "kernels.reduction(x", 'through.reduction(ffi.from_buffer("double[]", x)')
    output = validate(tuned, code=1)
    assert re.search(
        r"contradicts: the result differs on \d of \d calls that both arms made, by up to \d\.\de-15", output
    )
    assert "reduction: not timed: 40 calls on shapes that the capture does not hold" in output


def test_what_cannot_be_tried_is_no_pass(tuned):
    begins = "sum = 0;\n    for (long i = 0;"
    tuned.edit("kernels.c", f"double {begins}", f"static double sum; {begins}")
    output = validate(tuned, code=2)
    assert "reduction does not hold, so it is not tried: STALE" in output
    tuned.pytest("--tune", "--tune-budget=0", code=0)
    output = validate(tuned, code=2)
    assert "reduction is not tried: reduction's source keeps sum.0 from call to call" in output
    assert "no artifact can be tried in the program" in output
    tuned.acf("retire", "reduction", "--reason", "it keeps its sum")
    output = validate(tuned, code=2)
    assert "reduction (x86-64-gcc12) is 'retired', so there are no controls to try in the program" in output


def words(output: str) -> str:
    return " ".join(output.split())
