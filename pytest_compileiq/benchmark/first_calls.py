"""Times of the first call on a new input, or of a new copy of the build, and of later calls, in both arms.

It runs in a worker, before any proof: nothing here is a sample. What the times mean is in ``rules.calls``.
"""

from __future__ import annotations

import ctypes
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_compileiq.benchmark.body import ArmFailure, Bodies, run_arm, why_apart
from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.fixture import Acf
from pytest_compileiq.benchmark.timed_call import WASTE_BYTES, Key, LeaveBody, identity_of
from pytest_compileiq.machine_code.shared_library import SharedLibrary, announcing
from pytest_compileiq.model import Arm
from pytest_compileiq.rules.calls import FEWEST, Called, FirstCalls
from pytest_compileiq.timing.checked import CheckedArm, CheckFailed
from pytest_compileiq.timing.registry import Untimed
from pytest_compileiq.timing.sampler import ArmError, Timed

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


class _Cost(Struct, frozen=True):
    """Of one call: processor time of this process in seconds, and the pages that it was the first to touch."""

    seconds: float
    pages: int


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

        for output in acf.asked.outputs:
            output.flip(np.uint8(0))  # touches its pages
        self.is_measured = True
        costs: list[_Cost] = []
        parts: list[list[tuple[Key, _Cost]]] = []
        for number in range(1 + _LATER + _WARM):
            self.tick()
            if acf.asked.reset is not None:
                acf.asked.reset()
            self.within = []
            if number <= _LATER:
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


def _cost(call: Callable[[], Any]) -> tuple[_Cost, Any]:
    pages, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time_ns()
    given = call()
    seconds = (time.process_time_ns() - start) * 1e-9
    return _Cost(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - pages), given


def _sum(costs: Any) -> _Cost:
    listed = list(costs)
    return _Cost(sum(cost.seconds for cost in listed), sum(cost.pages for cost in listed))


_NOWHERE = ctypes.c_void_p()
_WASTE: list[bytearray] = []


def _empty_caches() -> None:
    """Fill the caches with other data, in memory that is kept: new pages would have to be found each time."""
    if not _WASTE:
        _WASTE.extend((bytearray(b"\1") * WASTE_BYTES, bytearray(b"\2") * WASTE_BYTES))
    _WASTE[0][:] = _WASTE[1]
    _cost(lambda: identity_of(0.0) or identity_of(_NOWHERE))  # code that is no part of the kernel may be in the caches
