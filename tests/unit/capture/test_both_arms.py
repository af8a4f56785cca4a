"""Two builds make a function's calls in turn, through the program's own function object."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from pytest_compileiq.capture.inside import compared_calls, ctypes_hook
from pytest_compileiq.capture.inside.both_arms import MOST_PAIRS, Arms
from pytest_compileiq.capture.inside.compared_calls import CallInput
from pytest_compileiq.capture.inside.counters import RAISED, ForeignCall
from pytest_compileiq.capture.inside.values import ForeignFunction

SOURCE = """\
int calls;
double scale(void) { return SCALE; }
double scaled(double *x, const char *name, long n) {
    calls++;
    for (long i = 0; i < n; i++) x[i] *= scale();
    return x[0];
}
"""
POINTER = ctypes.POINTER(ctypes.c_double)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    (folder / "scaled.c").write_text(SOURCE)
    compiler = shutil.which("gcc")
    assert compiler
    for name, scale in {"program": "2", "baseline": "2", "tuned": "2.5", "same": "2.0"}.items():
        argv = [compiler, "-shared", "-fPIC", f"-DSCALE={scale}", "scaled.c", "-o", f"{name}.so"]
        subprocess.run(argv, cwd=folder, check=True)
    return folder


class Program:
    """Calls ``scaled`` as the watching does."""

    def __init__(self, libraries, tuned: str = "same", only: int | None = None, shapes=((8,),)) -> None:
        loaded = [ctypes.CDLL(str(libraries / f"{name}.so")) for name in ("program", "baseline", tuned)]
        self.counters = [ctypes.c_int.in_dll(library, "calls") for library in loaded]
        for counter in self.counters:
            counter.value = 0
        self.scaled = loaded[0].scaled
        self.scaled.argtypes, self.scaled.restype = [POINTER, ctypes.c_char_p, ctypes.c_long], ctypes.c_double
        self.function = ForeignFunction("/elsewhere/program.so", "scaled", "ctypes")
        arms = [str(libraries / f"{name}.so") for name in ("baseline", tuned)]
        kernel = {
            "library": "/a/program.so",
            "function": "scaled",
            "shapes": shapes,
            "arms": arms,
            "only": only,
            "extents": None,
        }
        self.arms = Arms([kernel])

    def call(self, times_ns: tuple[int, int] = (300, 200), shape=(8,), result=None) -> list[float]:
        x = np.ones(8)
        arguments = x.ctypes.data_as(POINTER), b"x", 8
        routed = self.arms.begin(self.scaled, self.function, shape, arguments, {})
        got = self.scaled(*arguments) if result is None else result
        if routed is not None:
            self.finish(routed, arguments, got, times_ns[routed.arm], shape)
        return list(x)

    def finish(self, routed, arguments, result=2.0, own_ns=1, shape=(8,)) -> None:
        plain = type(self.scaled).__call__
        self.arms.finish(routed, ForeignCall(self.scaled, self.function, shape, arguments, result, own_ns, plain))

    @property
    def told(self):
        (told,) = self.arms.told()
        return told

    @property
    def calls(self) -> list[int]:
        return [counter.value for counter in self.counters]


def test_the_arms_take_turns_in_pairs_and_the_program_s_own_function_rests(libraries):
    program = Program(libraries)
    for _ in range(1000):
        program.call()
    series, others = program.told["series"]
    assert abs(series["calls"][0] - series["calls"][1]) <= 11
    assert len(series["pairs"]) == (1000 - 10) // 2
    assert set(map(tuple, series["pairs"])) == {(300, 200)}
    assert others == {"calls": [0, 0], "pairs": []}
    # 1, 2, 4, … 512: ten calls that both arms made.
    assert program.told["compared"] == 10
    assert program.calls == [0, 505, 505]
    program.scaled(np.ones(8).ctypes.data_as(POINTER), b"x", 8)
    assert program.calls[0] == 1


def test_pairs_are_in_random_order(libraries):
    program, firsts = Program(libraries), []
    for _ in range(64):
        before = program.calls
        program.call()
        firsts.append(program.calls[1] - before[1])
    assert 0 < sum(firsts) < 64
    assert firsts != [firsts[0], 1 - firsts[0]] * 32


def test_what_the_arms_leave_is_compared_and_the_program_goes_on_with_the_baseline_s(libraries):
    program = Program(libraries, tuned="tuned")
    assert program.call() == [2.0] * 8
    assert program.told["compared"] == 1
    assert program.told["apart"] == [
        {"place": "argument 1", "calls": 1, "tuned": 0.25, "own": 0.0},
        {"place": "the result", "calls": 1, "tuned": 0.25, "own": 0.0},
    ]
    # Of the next seven calls three are compared, and four are two pairs.
    assert [program.call()[0] for _ in range(7)].count(2.5) == 2


@pytest.mark.parametrize(("only", "scale"), [(0, 2.0), (1, 2.5)])
def test_one_arm_may_make_every_call(libraries, only, scale):
    program = Program(libraries, tuned="tuned", only=only)
    assert [program.call()[0] for _ in range(8)] == [scale] * 8
    assert program.told["compared"] == 0


def test_values_with_others_between_them_are_no_row_of_floats(libraries):
    program = Program(libraries)
    program.scaled.argtypes = [np.ctypeslib.ndpointer(np.float64)]
    packed = np.zeros(4, [("count", "<i4"), ("x", "<f8")])
    for array, dtype in ((packed["x"], ""), (np.zeros((4, 2))[:, 1], "<f8"), (np.zeros(4)[::-1], "<f8")):
        argument = ctypes_hook.taken(program.scaled, (array,))
        given = CallInput(program.function, program.scaled, argument)
        assert given.left(2.0)["argument 1"][1] == dtype


def test_a_call_that_reaches_too_much_memory_is_made_by_one_arm(libraries, monkeypatch):
    monkeypatch.setattr(compared_calls, "_LARGEST_MEMORY", 1 << 20)
    program = Program(libraries)
    x = np.ones((1 << 17) + 1)
    routed = program.arms.begin(program.scaled, program.function, (8,), (x.ctypes.data_as(POINTER), b"x", 8), {})
    assert routed.compared is None
    assert program.told["not_compared"] == ["its arguments reach more than 1 MiB"]


def test_arms_call_their_own_functions_where_the_program_s_library_shares_its_names(libraries):
    source = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(compared_calls.__file__).parents[3])!r})
from pytest_compileiq.capture.inside.both_arms import Arms
from pytest_compileiq.capture.inside.values import ForeignFunction
library = ctypes.CDLL({str(libraries / "program.so")!r}, mode=ctypes.RTLD_GLOBAL)
library.scaled.restype = ctypes.c_double
arms = {[str(libraries / name) for name in ("baseline.so", "tuned.so")]!r}
kernel = dict(library="program.so", function="scaled", shapes=[], arms=arms, only=1, extents=None)
x = (ctypes.c_double * 1)(1.0)
Arms([kernel]).begin(library.scaled, ForeignFunction("/program.so", "scaled", "ctypes"), (), (x, b"x", 1), {{}})
print(library.scaled(x, b"x", 1))
"""
    printed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert printed.stdout == "2.5\n", printed.stderr


def test_calls_on_other_shapes_are_apart_and_an_argument_of_many_values_takes_all(libraries):
    program = Program(libraries, shapes=((8, "int"), (9, 9)))
    for n in range(60):
        program.call(shape=(8, n))
    program.call(shape=(9, 8))
    assert [sum(series["calls"]) for series in program.told["series"]] == [60, 0, 1]


def test_a_call_that_raised_is_not_timed_and_its_pair_is_left_out(libraries):
    program = Program(libraries)
    for n in range(12):
        program.call(result=RAISED if n == 4 else None)
    assert program.told["raised"] == 1
    assert len(program.told["series"][0]["pairs"]) == (12 - 4) // 2 - 1


def test_a_call_that_another_thread_routed_anew_is_lost(libraries):
    program = Program(libraries)
    for _ in range(5):
        program.call()
    arguments = np.ones(8).ctypes.data_as(POINTER), b"x", 8
    first, second = (program.arms.begin(program.scaled, program.function, (8,), arguments, {}) for _ in range(2))
    for routed in (first, second):
        program.finish(routed, arguments)
    assert program.told["lost"] == 2
    before = program.calls
    program.scaled(*arguments)
    assert program.calls[0] == before[0] + 1


def test_no_call_is_made_by_both_arms_beside_another_thread_s_call(libraries):
    program, order = Program(libraries), []
    arguments = np.ones(8).ctypes.data_as(POINTER), b"x", 8

    def begin():
        return program.arms.begin(program.scaled, program.function, (8,), arguments, {})

    def begin_and_finish():
        routed = begin()
        order.append("another thread's")
        program.finish(routed, arguments)

    first = begin()
    thread = threading.Thread(target=begin_and_finish)
    thread.start()
    thread.join(0.2)
    order.append("the one that both make")
    program.finish(first, arguments)
    thread.join()
    assert order == ["the one that both make", "another thread's"]

    beside = begin(), begin()  # the third and the fourth, which is one to compare, but not beside the third
    for routed in beside:
        program.finish(routed, arguments)
    assert program.told["compared"] == 2
    program.call()  # the fifth makes up for it
    assert program.told["compared"] == 3


def test_of_many_pairs_some_are_kept_of_the_whole_run(libraries):
    program = Program(libraries)
    count = 3 * MOST_PAIRS
    for n in range(2 * count):
        program.call((n + 1, n + 1))
    pairs = program.told["series"][0]["pairs"]
    assert MOST_PAIRS / 2 <= len(pairs) <= MOST_PAIRS
    assert pairs[-1][0] > 2 * count - 32
    assert pairs == sorted(pairs)


def test_arms_that_cannot_be_loaded_leave_the_program_alone(libraries):
    program = Program(libraries)
    nowhere = {"library": "program.so", "function": "scaled", "arms": ["/none.so", "/none.so"]}
    program.arms = Arms([{**nowhere, "shapes": [], "extents": None, "only": None}])
    assert program.call() == [2.0] * 8
    assert program.calls == [1, 0, 0]
    assert "its arms cannot be loaded into the program: /none.so" in program.told["failure"]
