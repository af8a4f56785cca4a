"""Has calls of a function made by two other builds of it in turn, times both, and makes some calls by both.

The program's own function object makes every call, with its argument types, result type and checks: only the address
that it holds is another. So both arms come through the same door. They take turns in pairs of random order, so that
whatever drifts while the program runs is the same for both.

A call that both make puts memory back, where another thread's call may be writing: none is made beside it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from . import cffi_hook
from .compared_calls import BASELINE, ComparedCalls
from .counters import RAISED
from .shapes import is_of, told_of_shape
from .values import at_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from .compared_calls import CallInput
    from .counters import ForeignCall
    from .shapes import Shape
    from .values import ForeignFunction

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
            if function not in self._known:
                alike = [route for route in self._routes if route.function == function.name]
                route = next(iter(at_path(alike, function.library, lambda each: each.library)), None)
                if route is not None:
                    route.open(_cell_of(called, function.door).program)
                self._known[function] = route
            route = self._known[function]
            if route is None or not route.is_open:
                return None
            series = route.series_of(shape)
            compared, pair = None, None
            if route.only is not None:
                arm = route.only
            elif series.is_to_compare(is_alone=not self._inside) and (
                compared := route.compared.given(function, called, arguments, named)
            ):
                arm = BASELINE
            else:
                arm, pair = series.turn(self._random)
            cell = _cell_of(called, function.door)
            cell.direct(route.addresses[arm])
            self._inside += 1
            if compared is not None:
                self._lock.acquire()  # other threads' calls wait until it has ended
            return _Routed(route, series, arm, pair, compared, cell, cell.turns)

    def finish(self, routed: _Routed, made: ForeignCall) -> None:
        """The call has ended: take its time, and make it by the other arm, too, if it is one to compare."""

        def made_by(arm: int) -> Any:
            routed.cell.direct(routed.route.addresses[arm])
            return made.call(made.called, *made.arguments)

        with self._lock:
            is_by_arm = routed.turn == routed.cell.turns  # else another thread has directed it anew
            try:
                if made.result is RAISED:
                    routed.route.raised += 1
                elif not is_by_arm:
                    routed.route.lost += 1
                elif routed.compared is not None:
                    routed.route.compared.compare(routed.compared, made.result, made_by)
                elif routed.pair is not None:
                    routed.series.add(routed.pair, routed.arm, made.own_ns)
                routed.series.calls[routed.arm] += is_by_arm
            finally:
                routed.cell.direct(None)
                self._inside -= 1
                if routed.compared is not None:
                    self._lock.release()

    def told(self) -> list[dict[str, Any]]:
        with self._lock:
            return [route.told() for route in self._routes]


class _Routed(NamedTuple):
    """One call that an arm makes; ``turn`` is the cell's, by which another thread's call shows."""

    route: _Route
    series: _Series
    arm: int
    pair: list[int] | None
    compared: CallInput | None
    cell: _Cell
    turn: int


class _Cell:
    """What a function object calls; ``program`` is the address of the function of the program's own library."""

    def __init__(self, program: int | None, write: Callable[[int | None], None]) -> None:
        self.program = program
        self.turns = 0  # how often it was directed
        self._write = write

    def direct(self, address: int | None) -> None:
        """Have the object call ``address``; None for the function of the program's own library."""
        self._write(address)
        self.turns += 1


def _cell_of(called: Any, door: str) -> _Cell:
    try:
        return called._acf_cell  # type: ignore[no-any-return]
    except AttributeError:
        called._acf_cell = cell = _Cell(*(_ctypes_place if door == "ctypes" else _cffi_place)(called))
        return cell


def _ctypes_place(called: Any) -> tuple[int | None, Callable[[int | None], None]]:
    # ctypes reads the address of a function from memory of the object's own, at each call.
    place = ctypes.c_void_p.from_address(ctypes.addressof(called))
    program = place.value

    def write(address: int | None) -> None:
        place.value = program if address is None else address

    return program, write


def _cffi_place(called: Any) -> tuple[int | None, Callable[[int | None], None]]:
    # A stand-in keeps the function of cffi that it calls, which is of the same type in another library.
    backend = sys.modules["_cffi_backend"]
    functions: dict[int | None, Any] = {None: called._acf_raw}
    kind = backend.typeof(called._acf_raw)

    def write(address: int | None) -> None:
        if address not in functions:
            functions[address] = backend.cast(kind, address)
        called._acf_raw = functions[address]

    return int(backend.cast(backend.new_primitive_type("uintptr_t"), called._acf_raw)), write


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
        """Whether both arms make the call: the first, the second, the fourth, and so on, or the next that is alone."""
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
    """A function whose calls the arms make; ``lost`` calls another thread's call had made by another arm."""

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
        return len(self.addresses) == 2

    def open(self, program: int | None) -> None:
        """Load both arms, beside the program's own function, which is at address ``program``."""
        if self.is_open or self.failure:
            return
        try:
            flags, shared = os.RTLD_NOW, None
            with contextlib.suppress(OSError):  # what a library that is loaded now gets of those by RTLD_GLOBAL
                shared = _address(None, self.function, flags)
            if shared == program:
                flags |= os.RTLD_DEEPBIND  # else they would call the program's library where they call one another
            self.addresses = [_address(path, self.function, flags) for path in self._paths]
        except Exception as error:
            self.failure = f"its arms cannot be loaded into the program: {error}"

    def series_of(self, shape: Shape) -> _Series:
        try:
            return self._of_shape[shape]
        except KeyError:
            told = tuple(told_of_shape(shape))
            series = self._series[next((at for at, each in enumerate(self._shapes) if is_of(told, each)), -1)]
            if len(self._of_shape) < _MOST_KNOWN:
                self._of_shape[shape] = series
            return series

    def told(self) -> dict[str, Any]:
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
