"""A look at the call that a test measures: its first time and later ones, and the same call of an empty function.

It runs in a worker, beside the proof: nothing here is a sample. What the times mean is in ``rules.calls``.
"""

from __future__ import annotations

import ctypes
import math
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct

from pytest_compileiq.benchmark.fixture import Acf, Measurer
from pytest_compileiq.errors import Signal
from pytest_compileiq.machine_code.shared_library import SharedLibrary, announcing
from pytest_compileiq.rules.calls import RATIO, CallTimes
from pytest_compileiq.timing.clock import CpuClock

_ROUNDS = 9
_FEWEST_ROUNDS = 3
_ROUNDS_S = 10e-3  # seconds of calls in a row, in all about as many as one process of a proof makes
WASTE_BYTES = 16 * 2**20  # twice that is more than a core's own caches hold

Key = tuple[object, ...]
_WHOLE: Key = ()


def look(run: Callable[[Measurer], object], tick: Callable[[], object]) -> CallTimes | None:
    """Run a body by ``run`` until it measures, and look at the call; None where it measures nothing.

    The body's later statements are not run: some of the calls were of an empty function, whose results they would see.
    """
    watched = _Look(tick)
    try:
        with announcing(watched.load):
            run(watched.measure)
    except (Exception, LeaveBody):  # by the caller's name for it, if that told what the body raised
        if watched.times is None:
            raise
    return watched.times


class _Seen(Struct, frozen=True):
    """One call: CPU seconds, and the pages that it was the first to touch."""

    seconds: float
    faults: int


Calls = Mapping[Key, _Seen]
"""Within one measured call, by function and arguments: the last call of each, and the measured call as a whole."""


class LeaveBody(BaseException):
    """Unwinds the body once the look is done; no ``except Exception`` of its own catches it."""


class _Astray(Signal):
    """The test's callable makes more calls of an empty kernel than of the kernel."""


class _Look(Struct):
    """One look under way."""

    tick: Callable[[], object]
    times: CallTimes | None = None
    rounds: int = _ROUNDS
    libraries: list[SharedLibrary] = msgspec.field(default_factory=list)
    seen: dict[Key, _Seen] = msgspec.field(default_factory=dict)
    calls: int = 0
    most_calls: float = math.inf
    reset: Callable[[], object] | None = None

    def load(self, library: SharedLibrary) -> None:
        """Watch a library of the body from its first call on."""
        self.libraries.append(library)
        library.watch(self._around)

    def measure(self, acf: Acf, call: Callable[[], object]) -> None:
        """What ``acf.measure`` does here."""
        self.reset = acf.asked.reset
        first: Calls = self.seen
        whole = self._watched(call)
        self.rounds = min(_ROUNDS, max(_FEWEST_ROUNDS, math.ceil(_ROUNDS_S / max(whole[_WHOLE].seconds, 1e-9))))
        call_s = self._fastest(call)
        later = self._repeated(call)
        keys = later[-1].keys() - {_WHOLE}
        if not keys or not keys <= first.keys():  # the body makes no such calls itself, so that the first is measure's
            keys, first = {_WHOLE}, whole
        first_s, later_s = sum(first[key].seconds for key in keys), _sum_of(min, later, keys)
        might_be_cold = first_s > RATIO * later_s  # to find out takes longer than all the rest
        self.times = CallTimes(
            first_s=first_s,
            later_s=later_s,
            cold_s=self._cold(call, keys) if might_be_cold else later_s,
            faults=sum(first[key].faults for key in keys),
            call_s=min(
                call_s, self._fastest(call)
            ),  # again beside the empty one, lest a slow moment falls on one alone
            empty_s=self._empty(call),
        )
        raise LeaveBody

    # ── calls one by one ─────────────────────────────────────────────────────────────────────────────────────────

    def _watched(self, call: Callable[[], object]) -> Calls:
        """Make one measured call."""
        self.tick()
        if self.reset is not None:
            with self._unwatched():  # what it calls in a library is no part of the measured call
                self.reset()
        self.seen, self.calls = {}, 0
        self.seen[_WHOLE], _ = _timed(call)
        return self.seen

    def _around(self, name: str, arguments: Sequence[Any], call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls > self.most_calls:
            raise _Astray
        seen, given = _timed(call)
        self.seen[(name, *map(identity_of, arguments))] = seen
        return given

    def _repeated(self, call: Callable[[], object], before_each: Callable[[], object] = lambda: None) -> list[Calls]:
        rounds = []
        for _ in range(self.rounds):
            before_each()
            rounds.append(self._watched(call))
        return rounds

    def _cold(self, call: Callable[[], object], keys: Collection[Key]) -> float:
        """A typical call when the caches hold other data."""
        target, source = bytearray(b"\1") * WASTE_BYTES, bytearray(b"\2") * WASTE_BYTES

        def fill_caches() -> None:
            target[:] = source

        return _sum_of(_median, self._repeated(call, fill_caches), keys)

    # ── calls in a row ───────────────────────────────────────────────────────────────────────────────────────────

    def _fastest(self, call: Callable[[], object]) -> float:
        """Seconds of one call, the least of several means over calls in a row, with nothing watched."""
        clock = CpuClock()
        with self._unwatched():
            self.tick()
            repeats, means = 1, []
            if self.reset is None:
                repeats = max(1, math.ceil(_ROUNDS_S / _ROUNDS / max(clock.seconds(call, 1), 1e-9)))
            for _ in range(self.rounds):
                self.tick()
                if self.reset is not None:
                    self.reset()
                means.append(clock.seconds(call, repeats))
            return min(means)

    def _empty(self, call: Callable[[], object]) -> float | None:
        """``_fastest`` with a kernel that does nothing; None where the test's callable then makes other calls."""
        usual, self.most_calls = self._watched(call).keys(), self.calls
        try:
            with ExitStack() as emptied, suppress(Exception):
                for library in self.libraries:
                    emptied.enter_context(library.emptied({str(key[0]) for key in usual if key}))
                if len(usual) > 1 and (self._watched(call).keys(), self.calls) == (usual, self.most_calls):
                    return self._fastest(call)
        finally:
            self.most_calls = math.inf
        return None

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        for library in self.libraries:
            library.unwatch()
        try:
            yield
        finally:
            for library in self.libraries:
                library.watch(self._around)


def _timed(call: Callable[[], Any]) -> tuple[_Seen, Any]:
    """One call by the processor's time of this thread: what else runs on the machine does not count."""
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    start = time.thread_time()
    given = call()
    seconds = time.thread_time() - start
    return _Seen(seconds, resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - faults), given


def _sum_of(typical: Callable[[list[float]], float], calls: Sequence[Calls], keys: Collection[Key]) -> float:
    """The sum over ``keys`` of what is typical of the seconds of each."""
    return sum(typical([seen[key].seconds for seen in calls if key in seen]) for key in keys)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def identity_of(argument: Any) -> object:
    """What an argument is told from others by: a pointer's address, a number's value, else which object it is."""
    if hasattr(argument, "_obj"):  # of byref()
        return ctypes.addressof(argument._obj)
    if isinstance(argument, int | float):
        return argument
    try:
        return id(argument) if isinstance(argument, str) else ctypes.cast(argument, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        return getattr(argument, "value", id(argument))
