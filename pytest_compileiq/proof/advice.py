"""What to say of a measurement besides its verdict: whether the test checks it, and what the measured call does.

It is advice in the notes of a report, never a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pytest_compileiq.benchmark import assertions
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import NoWorker
from pytest_compileiq.model import ControlsFile, Workload
from pytest_compileiq.rules.calls import FRESH_RATIO, RATIO, CallTimes, of_first_calls, of_the_way
from pytest_compileiq.workers.messages import LookTask
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

_FRESH = 1000  # from here on workers are numbered that take no samples: the state of a test's fixtures is new to them
_LOOKS = 3  # how many have to agree


def of_the_body(benchmark: TunedBenchmark) -> list[str]:
    """What to say of a body that does not check what it times; empty where it does."""
    is_its_own_check = benchmark.scores_only and not benchmark.builder.compiler.compiles  # the score is the output
    said = (
        benchmark.needs_device
        and not is_its_own_check
        and assertions.advice(benchmark.function, fixtures=benchmark.fixtures, rootdir=benchmark.rootdir)
    )
    return [said] if said else []


def of_the_call(pool: Pool, benchmark: TunedBenchmark, controls: ControlsFile | None) -> list[str]:
    """What a look at the measured call finds on the workloads that are timed on this processor, each thing once."""
    if not _times_calls(benchmark):
        return []
    several = len(benchmark.timed_workloads) > 1
    by_workload = [
        [
            f"{workload.name}: {said}" if said and several else said
            for said in _on_workload(pool, benchmark, controls, workload)
        ]
        for workload in benchmark.timed_workloads
    ]
    return [said for kind in zip(*by_workload, strict=True) if (said := next(filter(None, kind), None))]


def of_short_calls(pool: Pool, benchmark: TunedBenchmark) -> Iterator[str]:
    """What to say before a search: of the baseline's calls that are hardly longer than a call of nothing."""
    if not _times_calls(benchmark):
        return
    for workload in benchmark.timed_workloads:
        try:
            times = pool.ask(_FRESH, benchmark, LookTask(workload.name, None))
        except (EvaluationFailed, NoWorker):  # the search says so
            return
        if times is not None and (said := of_the_way([times])):
            yield f"{workload.name}: {said}" if len(benchmark.timed_workloads) > 1 else said


def _times_calls(benchmark: TunedBenchmark) -> bool:
    is_timed = any(objective.measured == "runtime" for objective in benchmark.timed_objectives)
    return is_timed and benchmark.builder.clock == "cpu"


def _on_workload(
    pool: Pool, benchmark: TunedBenchmark, controls: ControlsFile | None, workload: Workload
) -> tuple[str | None, str | None]:
    """What to say of the first call, and of the call's overhead; None where there is nothing to say."""

    def look(number: int) -> CallTimes | None:
        return pool.ask(number, benchmark, LookTask(workload.name, controls))

    try:
        if (fresh := look(_FRESH)) is None or (again := look(_FRESH)) is None:  # the body records instead
            return None, None
        # In a body's second run, only what the body itself sets up is new.
        first = _agreed(again, lambda _: look(_FRESH), RATIO) or _agreed(
            fresh, lambda more: look(_FRESH + more), FRESH_RATIO
        )
        return first, of_the_way([fresh, again])
    except (EvaluationFailed, NoWorker) as failure:
        return f"the measured call could not be looked at: {failure}", None


def _agreed(first: CallTimes, look: Callable[[int], CallTimes | None], ratio: float) -> str | None:
    """What one look says of first calls, or None unless enough further looks say the same."""
    looks = [first]
    while (said := of_first_calls(looks, ratio=ratio)) and len(looks) < _LOOKS:
        if (another := look(len(looks))) is None:
            return None
        looks.append(another)
    return said
