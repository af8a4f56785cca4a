"""A look at a measured call of real libraries: what it sees, and that it leaves them as they were."""

from __future__ import annotations

import ctypes
import subprocess
from types import SimpleNamespace

import pytest

from pytest_compileiq.benchmark.first_calls import identity_of, look
from pytest_compileiq.machine_code.shared_library import load_library
from pytest_compileiq.timing.checked import MeasureArguments

LIBRARY_C = """\
static int left = 3, count;
int next(void) { return left-- > 0 ? left : -1; }
int one(int *out) { *out = 1; return 1; }
double half(double x) { return x / 2; }
const char *name(void) { return "kernel"; }
int *place(void) { return &count; }
void consume(volatile int *todo) { while (*todo > 0) --*todo; }
int spins;
void spin(int n) { spins++; for (volatile int i = 0; i < n; i++) ; }
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    home = tmp_path_factory.mktemp("library")
    (home / "library.c").write_text(LIBRARY_C)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", home / "library.c", "-o", home / "library.so"], check=True)
    return home / "library.so"


@pytest.fixture
def load(path):
    return lambda used=None: load_library(SimpleNamespace(path=path, log=""), set() if used is None else used)


def looked(body, ticks=None):
    """A look at a body that is given ``measure`` alone."""
    return look(
        lambda measurer: body(lambda call, **given: measurer(SimpleNamespace(asked=MeasureArguments(**given)), call)),
        (lambda: None) if ticks is None else lambda: ticks.append(1),
    )


def test_a_watched_call_is_handed_on_and_an_unwatched_one_is_not(load):
    library, handed = load(), []

    def around(name, arguments, call):
        handed.append((name, arguments, given := call()))
        return given

    library.half.restype, library.half.argtypes = ctypes.c_double, [ctypes.c_double]
    library.watch(around)
    assert library.half(3) == 1.5
    library.unwatch()
    assert library.half(5) == 2.5
    assert handed == [("half", (3,), 1.5)]
    assert "__call__" not in vars(type(library.half))


def test_watching_one_library_does_not_watch_another_of_the_same_file(load):
    library, other, handed = load(), load(), []
    library.watch(lambda name, arguments, call: handed.append(name) or call())

    other.next()
    assert handed == []


def test_an_emptied_library_does_nothing_and_is_itself_again_whatever_happens(load):
    library, out = load(), ctypes.c_int(7)
    one = library.one
    with pytest.raises(ZeroDivisionError), library.emptied({"one"}):
        assert (one(ctypes.byref(out)), out.value) == (0, 7)
        raise ZeroDivisionError

    assert (one(ctypes.byref(out)), out.value) == (1, 1)


@pytest.mark.parametrize(
    ("function", "restype"), [("name", ctypes.c_char_p), ("place", ctypes.POINTER(ctypes.c_int)), ("place", ctypes.c_void_p)]
)  # fmt: skip
def test_a_library_whose_function_returns_an_address_is_never_emptied(load, function, restype):
    library = load()
    getattr(library, function).restype = restype
    with pytest.raises(ValueError, match="something else than a number"), library.emptied({function}):
        pass
    with library.emptied({"half"}):
        assert getattr(library, function)()


def test_a_look_sees_the_work_of_the_bodys_own_call_and_what_later_ones_leave_out(load):
    def body(measure):
        consume, todo = load().consume, ctypes.c_int(10**6)
        consume(ctypes.byref(todo))
        measure(lambda: consume(ctypes.byref(todo)))

    times = looked(body)
    assert times.first_s > 10 * max(times.later_s, times.cold_s)
    assert times.empty_s > 0


def test_where_the_body_makes_other_calls_the_first_is_measures_own(load):
    def body(measure):
        consume, todo, other = load().consume, ctypes.c_int(10**6), ctypes.c_int(1)
        consume(ctypes.byref(todo))
        measure(lambda: consume(ctypes.byref(other)))

    times = looked(body)
    assert times.first_s < 1e-3


def test_a_body_is_left_before_it_sees_what_an_empty_function_gave(load):
    reached = []

    def body(measure):
        one, out, given = load().one, ctypes.c_int(), []
        measure(lambda: given.append(one(ctypes.byref(out))))
        reached.append(given)
        assert all(value == 1 for value in given)

    assert looked(body).empty_s is not None
    assert not reached


def test_what_a_body_undoes_is_undone(load):
    undone = []

    def body(measure):
        try:
            measure(load().next)
        except Exception:
            undone.append("caught")
        finally:
            undone.append("left")

    assert looked(body).call_s > 0
    assert undone == ["left"]


def test_a_body_that_fails_before_it_measures_fails(load):
    def body(measure):
        load()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        looked(body)


def test_a_callable_that_waits_for_the_kernel_is_not_tried_with_an_empty_one(load):
    def body(measure):
        one, out = load().one, ctypes.c_int()

        def call():
            out.value = 0
            while not out.value:
                one(ctypes.byref(out))

        measure(call)

    assert looked(body).empty_s is None


def test_a_callable_that_asserts_on_the_output_is_not_timed_with_an_empty_kernel(load):
    def body(measure):
        one, out = load().one, ctypes.c_int()

        def call():
            out.value = 0
            one(ctypes.byref(out))
            assert out.value == 1

        measure(call)

    assert looked(body).empty_s is None


def test_a_callable_of_no_library_is_looked_at_as_a_whole():
    times = looked(lambda measure: measure(lambda: sum(range(1000))))
    assert times.first_s > 0 and times.call_s > 0 and times.empty_s is None


def test_a_body_that_measures_nothing_gives_no_times(load):
    assert looked(lambda measure: load().next()) is None


def test_a_watcher_sees_progress(load):
    ticks = []
    looked(lambda measure: measure(load().next), ticks)
    assert len(ticks) > 10


def test_a_kernel_that_is_slow_is_called_a_few_times_only(load):
    spins = ctypes.c_int.in_dll(load(), "spins")
    spins.value = 0

    def body(measure):
        spin = load().spin
        measure(lambda: spin(10**7))

    looked(body)
    assert 5 < spins.value < 25


ARGUMENTS = {
    "integers": (lambda: 3, lambda: 4),
    "numbers": (lambda: 0.5, lambda: 0.25),
    "ctypes' integers": (lambda: ctypes.c_int(3), lambda: ctypes.c_int(4)),
    "pointers": (lambda: ctypes.cast(KEPT[0], ctypes.c_void_p), lambda: ctypes.cast(KEPT[1], ctypes.c_void_p)),
    "typed pointers": (lambda: ctypes.pointer(KEPT[0]), lambda: ctypes.pointer(KEPT[1])),
    "references": (lambda: ctypes.byref(KEPT[0]), lambda: ctypes.byref(KEPT[1])),
    "bytes": (lambda: KEPT_BYTES[0], lambda: KEPT_BYTES[1]),
    "strings": (lambda: KEPT_TEXT[0], lambda: KEPT_TEXT[1]),
    "whatever else": (lambda: KEPT[0], lambda: KEPT[1]),
}
KEPT = ((ctypes.c_int * 2)(), (ctypes.c_int * 2)())
KEPT_BYTES, KEPT_TEXT = (b"one", b"two"), ("one", "two")


@pytest.mark.parametrize("what", ARGUMENTS)
def test_a_call_is_the_same_by_the_place_and_value_of_its_arguments(load, what):
    same, other = ARGUMENTS[what]

    assert identity_of(same()) == identity_of(same()) != identity_of(other())


def test_every_call_comes_after_its_reset():
    todo = []
    times = looked(lambda measure: measure(todo.pop, reset=lambda: todo.append(1)))
    assert times.call_s > 0 and not todo


def test_a_kernel_that_works_in_place_is_looked_at_with_its_reset(load):
    todo, resets = ctypes.c_int(0), []

    def reset():
        resets.append(1)
        todo.value = 1_000_000

    def body(measure):
        consume = load().consume
        measure(lambda: consume(ctypes.byref(todo)), reset=reset)

    times = looked(body)
    assert times.later_s > 1e-4 and times.call_s > 1e-4  # of work that is there again each time
    assert len(resets) > 10
