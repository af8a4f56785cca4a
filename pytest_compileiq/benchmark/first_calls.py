"""First calls and later ones, in a worker: a look at the call that a body measures, and both arms on a new input.

A look also calls an empty function. New is an input, or a copy of the build. Nothing here is a sample, and what the
times mean is in ``rules.calls``.
"""

from __future__ import annotations

import ctypes
import math
import resource
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from statistics import median, median_high
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_compileiq.benchmark.body import ArmFailure, Bodies, run_arm, why_apart
from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.fixture import Acf, Measurer
from pytest_compileiq.errors import Signal
from pytest_compileiq.machine_code.shared_library import SharedLibrary, announcing
from pytest_compileiq.model import Arm
from pytest_compileiq.rules.calls import FEWEST, RATIO, Called, CallTimes, FirstCalls
from pytest_compileiq.timing.checked import CheckedArm, CheckFailed
from pytest_compileiq.timing.clock import CpuClock
from pytest_compileiq.timing.registry import Untimed
from pytest_compileiq.timing.sampler import ArmError, Timed

Key = tuple[object, ...]


class _Cost(Struct, frozen=True):
    """Of one call: processor time in seconds, and the pages that it was the first to touch."""

    seconds: float
    pages: int


def _cost(call: Callable[[], Any], *, of_thread: bool = False) -> tuple[_Cost, Any]:
    """What a call costs this process, or this thread alone, and what it gives: other processes do not count."""
    who = resource.RUSAGE_THREAD if of_thread else resource.RUSAGE_SELF
    clock = time.thread_time_ns if of_thread else time.process_time_ns
    pages, start = resource.getrusage(who).ru_minflt, clock()
    given = call()
    seconds = (clock() - start) * 1e-9
    return _Cost(seconds, resource.getrusage(who).ru_minflt - pages), given


def _sum(costs: Iterable[_Cost]) -> _Cost:
    listed = list(costs)
    return _Cost(sum(cost.seconds for cost in listed), sum(cost.pages for cost in listed))


class LeaveBody(BaseException):
    """Unwinds the body once the calls are made; no ``except Exception`` of its own catches it."""


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


_NOWHERE = ctypes.c_void_p()
_WASTE: list[bytearray] = []
_WASTE_BYTES = 16 * 2**20  # twice that is more than a core's own caches hold


def _empty_caches() -> None:
    """Fill the caches with other data, in memory that is kept: new pages would have to be found each time."""
    if not _WASTE:
        _WASTE.extend((bytearray(b"\1") * _WASTE_BYTES, bytearray(b"\2") * _WASTE_BYTES))
    _WASTE[0][:] = _WASTE[1]
    _cost(lambda: identity_of(0.0) or identity_of(_NOWHERE))  # code that is no part of the kernel may be in the caches


# ── a look at the measured call ──────────────────────────────────────────────────────────────────────────────────

_ROUNDS = 9
_FEWEST_ROUNDS = 3
_ROUNDS_S = 10e-3  # seconds of calls in a row, in all about as many as one process of a proof makes
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


Calls = Mapping[Key, _Cost]
"""Within one measured call, by function and arguments: the last call of each, and the measured call as a whole."""


class _Astray(Signal):
    """The test's callable makes more calls of an empty kernel than of the kernel."""


class _Look(Struct):
    """One look under way."""

    tick: Callable[[], object]
    times: CallTimes | None = None
    rounds: int = _ROUNDS
    libraries: list[SharedLibrary] = msgspec.field(default_factory=list)
    seen: dict[Key, _Cost] = msgspec.field(default_factory=dict)
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
        first_s, later_s = sum(first[key].seconds for key in keys), _seconds_of(keys, later, min)
        might_be_cold = first_s > RATIO * later_s  # to find out takes longer than all the rest
        self.times = CallTimes(
            first_s=first_s,
            later_s=later_s,
            cold_s=_seconds_of(keys, self._repeated(call, _empty_caches), median_high) if might_be_cold else later_s,
            faults=sum(first[key].pages for key in keys),
            # Again beside the empty one, lest a slow moment falls on one alone.
            call_s=min(call_s, self._fastest(call)),
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
        self.seen[_WHOLE], _ = _cost(call, of_thread=True)
        return self.seen

    def _around(self, name: str, arguments: Sequence[Any], call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls > self.most_calls:
            raise _Astray
        seen, given = _cost(call, of_thread=True)
        self.seen[(name, *map(identity_of, arguments))] = seen
        return given

    def _repeated(self, call: Callable[[], object], before_each: Callable[[], object] = lambda: None) -> list[Calls]:
        rounds = []
        for _ in range(self.rounds):
            before_each()
            rounds.append(self._watched(call))
        return rounds

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


def _seconds_of(keys: Collection[Key], calls: Sequence[Calls], typical: Callable[[list[float]], float]) -> float:
    """The sum over ``keys`` of what is typical of the seconds of each."""
    return sum(typical([seen[key].seconds for seen in calls if key in seen]) for key in keys)


# ── first calls of both arms ─────────────────────────────────────────────────────────────────────────────────────

_APART = 2**41  # seeds that no other run of a body draws: nothing of them is remembered yet
_LATER, _WARM = 3, 3


def time_first_calls(bodies: Bodies, seed: int) -> FirstCalls | None:
    """Run both arms' bodies, in random order, until they have measured; None where that decides nothing."""
    benchmark = bodies.benchmark
    spec, metrics = benchmark.spec, {objective.measured for objective in benchmark.timed_objectives}
    if spec.repeats or spec.stress < FEWEST or benchmark.builder.clock != "cpu" or "runtime" not in metrics:
        return None
    order: list[Arm] = ["baseline", "tuned"]
    Random(seed).shuffle(order)
    called: dict[Arm, Called] = {}
    ran: dict[Arm, Acf] = {}
    for arm in order:
        watched = _Watched(bodies.tick)
        with suppress(ArmFailure), announcing(watched.load):
            run_arm(bodies, arm, Outputs(), watched.measure, draw=seed + _APART)
        if watched.called is None or watched.acf is None:
            return None
        called[arm], ran[arm] = watched.called, watched.acf
    return FirstCalls(called["baseline"], called["tuned"], why_apart(ran["tuned"], ran["baseline"]))


def time_first_calls_of_copies(bodies: Bodies, seed: int) -> FirstCalls | None:
    """As ``time_first_calls``, on copies of both builds: the memory of a kernel is new in each copy."""
    benchmark = bodies.benchmark
    with tempfile.TemporaryDirectory(dir=benchmark.builds.directory) as directory:
        copied = replace(benchmark, builds=benchmark.builds.copied(bodies.arms.values(), Path(directory)))
        return time_first_calls(replace(bodies, benchmark=copied), seed)


class _Watched(Struct):
    """One run of a body, whose calls of the kernel are timed from the first one on, also those before ``measure``."""

    tick: Callable[[], object]
    called: Called | None = None
    acf: Acf | None = None
    is_measured: bool = False
    own: dict[Key, _Cost] = msgspec.field(default_factory=dict)
    within: list[tuple[Key, _Cost]] = msgspec.field(default_factory=list)

    def load(self, library: SharedLibrary) -> None:
        """Watch a library of the body, whose pages are not to be found missing by its first call."""
        library.populate()
        library.watch(self._around)

    def measure(self, acf: Acf, call: Callable[[], object]) -> None:
        """What ``acf.measure`` does here."""
        import numpy as np  # heavy, and a body that draws has imported it

        self.is_measured = True
        costs: list[_Cost] = []
        parts: list[list[tuple[Key, _Cost]]] = []
        for number in range(1 + _LATER + _WARM):
            self.tick()
            if acf.asked.reset is not None:
                acf.asked.reset()
            self.within = []
            if number <= _LATER:
                for output in acf.asked.outputs:  # its pages are there, and its lines where they were before each call
                    output.flip(np.uint8(0))
                _empty_caches()
            costs.append(_cost(call)[0])
            parts.append(self.within)
        if all(parts):  # without the test's own statements, which emptied caches make slow
            costs = [_sum(cost for _, cost in part) for part in parts]
        keys = [key for key, _ in parts[0]]
        if keys and len(set(keys)) == len(keys) and self.own.keys() >= set(keys):
            costs[0] = _sum(self.own[key] for key in keys)  # the body made the same calls before: those were the first
        first, later, warm = costs[0], costs[1 : 1 + _LATER], costs[1 + _LATER :]
        later_s, warm_s = median(cost.seconds for cost in later), min(cost.seconds for cost in warm)
        new_pages = first.pages - max(cost.pages for cost in later)
        self.called = Called(max(first.seconds, 1e-9), max(later_s, 1e-9), max(warm_s, 1e-9), new_pages)
        self.acf = acf
        if acf.drew:  # one input was compared before
            checked = CheckedArm(Timed(acf.arm, call, Untimed("cpu"), self.tick, acf.asked.reset), acf.asked)
            with suppress(ArmError, CheckFailed):  # whoever runs the body for its correctness says so
                checked.learn()
            acf.written = checked.written
        raise LeaveBody

    def _around(self, name: str, arguments: Sequence[Any], call: Callable[[], Any]) -> Any:
        key = (name, *map(identity_of, arguments))
        if not self.is_measured and key not in self.own:
            _empty_caches()
        cost, given = _cost(call)
        if self.is_measured:
            self.within.append((key, cost))
        else:
            self.own.setdefault(key, cost)
        return given
