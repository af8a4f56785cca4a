"""Has calls of a function made by two other builds of it in turn, times both, and makes some calls by both.

The program's own function object makes every call, with its argument types, result type and checks: only the address
that it holds is another. So both arms come through the same door. They take turns in pairs of random order, so that
whatever drifts while the program runs is the same for both.

A call that both make puts memory back, where another thread's call may be writing: none is made beside it.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import cffi_hook
from .compared_calls import BASELINE, CallInput, ComparedCalls
from .counters import RAISED
from .shapes import is_of, told_of_shape

if TYPE_CHECKING:
    from .counters import ForeignCall
    from .shapes import Shape
    from .values import ForeignFunction


class _OfCtypes:
    """ctypes reads the address of a function from memory of the object's own, at each call."""

    def __init__(self, called: Any) -> None:
        self._place = ctypes.c_void_p.from_address(ctypes.addressof(called))
        self.program = self._place.value

    def write(self, address: int | None) -> None:
        self._place.value = self.program if address is None else address


class _OfCffi:
    """A stand-in keeps the function of cffi that it calls, which is of the same type in another library."""

    def __init__(self, called: Any) -> None:
        backend = sys.modules["_cffi_backend"]
        self._called = called
        self._functions: dict[int | None, Any] = {None: called._acf_raw}
        self._cast = backend.cast
        self._kind = backend.typeof(called._acf_raw)
        self.program = int(self._cast(backend.new_primitive_type("uintptr_t"), called._acf_raw))

    def write(self, address: int | None) -> None:
        if address not in self._functions:
            self._functions[address] = self._cast(self._kind, address)
        self._called._acf_raw = self._functions[address]


_OF_DOOR: dict[str, Any] = {"ctypes": _OfCtypes, "cffi": _OfCffi}


class Cell:
    """What a function object calls.

    Attributes:
        program: the address of the function of the program's own library.
        turns: how often it was directed.
    """

    def __init__(self, called: Any, door: str) -> None:
        self._place = _OF_DOOR[door](called)
        self.program: int | None = self._place.program
        self.turns = 0

    def direct(self, address: int | None) -> None:
        """Have the object call ``address``; None for the function of the program's own library."""
        self._place.write(address)
        self.turns += 1


def cell_of(called: Any, door: str) -> Cell:
    """The cell of a function object, of which each has one."""
    try:
        return called._acf_cell  # type: ignore[no-any-return]
    except AttributeError:
        cell = called._acf_cell = Cell(called, door)
        return cell


MOST_PAIRS = 4096  # of a shape; with more, every second one is dropped
_MOST_KNOWN = 20_000  # shapes of a function, where each value of a seed is one
_SEED = 21


class Arms:
    """Routes the calls of ``kernels``; never raises into the program.

    Args:
        kernels: of each ``library``, ``function``, its ``shapes`` as they are told, ``extents``: what the user said of
            memory, ``arms``: the paths of the baseline's library and of the tuned one, and ``only``: the arm that makes
            every call, which is then neither timed nor compared; None for both in turn.
    """

    def __init__(self, kernels: list[dict[str, Any]]) -> None:
        self._routes = [_Route(kernel) for kernel in kernels]
        self._known: dict[ForeignFunction, _Route | None] = {}
        self._lock = threading.RLock()  # a finaliser may make a watched call while this thread is in here
        self._inside = 0  # routed calls that have begun and not ended
        cffi_hook.is_recording = True
        self._random = random.Random(_SEED)  # of our own: the program's random numbers stay as they are

    def begin(
        self, called: Any, function: ForeignFunction, shape: Shape, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> _Routed | None:
        """Have the call that is about to be made made by an arm; None where the function is not routed."""
        with self._lock:
            route = self._known[function] if function in self._known else self._looked_up(function, called)
            if route is None or not route.is_open:
                return None
            series = route.series_of(shape)
            compared = None
            if route.only is not None:
                arm, pair = route.only, None
            elif series.is_to_compare(is_alone=not self._inside) and (
                compared := route.compared.given(function, called, arguments, named)
            ):
                arm, pair = BASELINE, None
            else:
                arm, pair = series.turn(self._random)
            routed = _Routed(route, series, arm, pair, compared, cell_of(called, function.door))
            routed.cell.direct(route.addresses[arm])
            routed.turn = routed.cell.turns
            self._inside += 1
            if compared is not None:
                self._lock.acquire()  # other threads' calls wait until it has ended
            return routed

    def finish(self, routed: _Routed, made: ForeignCall) -> None:
        """The call has ended: take its time, and make it by the other arm, too, if it is one to compare."""
        with self._lock:
            is_by_arm = routed.turn == routed.cell.turns  # else another thread has directed it anew
            try:
                if made.result is RAISED:
                    routed.route.raised += 1
                elif not is_by_arm:
                    routed.route.lost += 1
                elif routed.compared is not None:
                    _compare(routed, routed.compared, made)
                elif routed.pair is not None:
                    routed.series.add(routed.pair, routed.arm, made.own_ns)
                routed.series.calls[routed.arm] += is_by_arm
            finally:
                routed.cell.direct(None)
                self._inside -= 1
                if routed.compared is not None:
                    self._lock.release()

    def told(self) -> list[dict[str, Any]]:
        """What became of each kernel, in JSON's types."""
        with self._lock:
            return [route.told() for route in self._routes]

    def _looked_up(self, function: ForeignFunction, called: Any) -> _Route | None:
        """The route of a function: of the library at its path, else of one of that name, as of another checkout."""
        named = [route for route in self._routes if route.function == function.name]
        at_its_path = [route for route in named if route.library == function.library]
        alike = [route for route in named if os.path.basename(route.library) == os.path.basename(function.library)]
        route = next(iter(at_its_path or alike), None)
        if route is not None:
            route.open(cell_of(called, function.door).program)
        return self._known.setdefault(function, route)


class _Routed:
    """One call that an arm makes."""

    __slots__ = ("arm", "cell", "compared", "pair", "route", "series", "turn")

    def __init__(
        self, route: _Route, series: _Series, arm: int, pair: list[int] | None, compared: CallInput | None, cell: Cell
    ) -> None:
        self.route = route
        self.series = series
        self.arm = arm
        self.pair = pair
        self.compared = compared
        self.cell = cell
        self.turn = 0


class _Series:
    """The calls with arguments of one captured shape: the times of pairs of them, one by each arm."""

    def __init__(self) -> None:
        self.calls = [0, 0]
        self.pairs: list[list[int]] = []
        self._seen = 0
        self._next_compared = 1
        self._waiting: list[tuple[int, list[int]]] = []
        self._complete = 0
        self._step = 1

    def is_to_compare(self, *, is_alone: bool) -> bool:
        """Whether the call is made by both arms: the first one, the second, the fourth, the eighth, and so on.

        Where it is not alone, the next one that is.
        """
        self._seen += 1
        if not is_alone or self._seen < self._next_compared:
            return False
        self._next_compared = 2 * self._seen
        return True

    def turn(self, source: random.Random) -> tuple[int, list[int]]:
        """The arm that makes the next call, and the pair that it is of."""
        if not self._waiting:
            pair = [0, 0]
            first = source.randrange(2)
            self._waiting = [(1 - first, pair), (first, pair)]
        return self._waiting.pop()

    def add(self, pair: list[int], arm: int, own_ns: int) -> None:
        """Take in a time. Where there are too many pairs, every second one goes, and of later ones, too."""
        pair[arm] = max(1, own_ns)
        if not all(pair):
            return
        if self._complete % self._step == 0:
            self.pairs.append(pair)
        self._complete += 1
        if len(self.pairs) > MOST_PAIRS:
            self.pairs = self.pairs[::2]
            self._step *= 2


class _Route:
    """A function whose calls the arms make.

    Attributes:
        compared: the calls that both arms made.
        lost: calls that another thread's call of the same function had made by another arm.
    """

    def __init__(self, kernel: dict[str, Any]) -> None:
        self.library: str = kernel["library"]
        self.function: str = kernel["function"]
        self.addresses: list[int] = []
        self.only: int | None = kernel["only"]
        self.compared = ComparedCalls(kernel["extents"])
        self.raised = 0
        self.lost = 0
        self.failure: str | None = None
        self._paths: list[str] = kernel["arms"]
        self._shapes = [tuple(shape) for shape in kernel["shapes"]]
        self._series = [_Series() for _ in (*self._shapes, None)]  # the last one is of all other shapes
        self._of_shape: dict[Shape, _Series] = {}

    @property
    def is_open(self) -> bool:
        """Whether both arms are loaded."""
        return len(self.addresses) == 2

    def open(self, program: int | None) -> None:
        """Load both arms, beside the program's own function, which is at address ``program``."""
        if self.is_open or self.failure:
            return
        try:
            flags = os.RTLD_NOW
            if _globally(self.function) == program:
                flags |= os.RTLD_DEEPBIND  # else they would call the program's library where they call one another
            self.addresses = [_address(path, self.function, flags) for path in self._paths]
        except Exception as error:
            self.failure = f"its arms cannot be loaded into the program: {error}"

    def series_of(self, shape: Shape) -> _Series:
        """The series that calls of this shape are in."""
        try:
            return self._of_shape[shape]
        except KeyError:
            told = tuple(told_of_shape(shape))
            series = self._series[next((at for at, each in enumerate(self._shapes) if is_of(told, each)), -1)]
            if len(self._of_shape) < _MOST_KNOWN:
                self._of_shape[shape] = series
            return series

    def told(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "library": self.library,
            "function": self.function,
            "failure": self.failure,
            "series": [{"calls": each.calls, "pairs": each.pairs} for each in self._series],
            "raised": self.raised,
            "lost": self.lost,
            **self.compared.told(),
        }


def _address(path: str | None, function: str, flags: int) -> int:
    import _ctypes  # what ctypes itself loads by; not there everywhere

    opened = _ctypes.dlopen(path, flags)  # type: ignore[arg-type]  # None is the program itself
    return int(_ctypes.dlsym(opened, function))


def _globally(function: str) -> int | None:
    """What a library that is loaded now gets by this name of those that share theirs, as by ``RTLD_GLOBAL``."""
    try:
        return _address(None, function, os.RTLD_NOW)
    except OSError:
        return None


def _compare(routed: _Routed, given: CallInput, made: ForeignCall) -> None:
    """Have the call made by the tuned arm, too."""

    def made_by(arm: int) -> Any:
        routed.cell.direct(routed.route.addresses[arm])
        return made.call(made.called, *made.arguments)

    routed.route.compared.compare(given, made.result, made_by)
