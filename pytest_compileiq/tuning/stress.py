"""Holds finalists to other draws of ``acf.rng`` than the one input that a search judges by, before any is proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from pytest_compileiq.claim import Stress
from pytest_compileiq.model import MOST_DRAWS, ControlsFile, Workload
from pytest_compileiq.rules.calls import FirstCalls, is_decided, why_never_new, why_remembered
from pytest_compileiq.rules.stress import Draw, record_of, why_apart, why_not_computed
from pytest_compileiq.search.scoring import Key, built_key
from pytest_compileiq.spelling import for_shell, quantity
from pytest_compileiq.toolchains.option_classes import has_to_keep_bits
from pytest_compileiq.tuning.context import Tuning
from pytest_compileiq.workers.messages import DrawTask, FirstCallsTask
from pytest_compileiq.workers.pool import EvaluationFailed, asked_again

SHARE = 0.1  # of the search's time, that one finalist's draws may take
LEAST_S = 20.0
FLOOR = 8  # draws, however long they take
_ALONE = 200  # the worker that runs the baseline alone: nothing of a candidate can have spoilt it
_AGAIN = 201  # the worker that repeats a draw, each time a new one
_SEEDS = 2**40


@dataclass(frozen=True)
class Wrong:
    """Controls that are wrong, twice, on a draw on which the baseline holds; on all together without ``seed``."""

    controls: ControlsFile
    seed: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.seed is None else f"wrong on draw {self.seed} of acf.rng: {self.reason}"


class Stressing:
    """Draws for the finalists of one benchmark, of each within ``limit_s`` once there are ``FLOOR`` of them."""

    def __init__(self, tuning: Tuning, limit_s: float = LEAST_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.tuning, self.limit_s, self.clock = tuning, limit_s, clock
        self.benchmark, self.pool = tuning.benchmark, tuning.pool
        self.wrong: list[Wrong] = []  # finalists that dropped out
        self._records: dict[Key, Stress] = {}

    def finalists(self, ranked: Iterable[ControlsFile], *, most: int) -> list[ControlsFile]:
        """The first ``most`` that are wrong on no draw."""
        return list(islice(filter(self.holds, ranked), most))

    def holds(self, controls: ControlsFile) -> bool:
        """Whether ``controls`` are wrong on no draw; what draws gave is kept, or the one that they are wrong on."""
        judged = self.hold(controls)
        if isinstance(judged, Wrong):
            self.wrong.append(judged)
        elif judged is not None:
            self._records[built_key(self.benchmark, controls)] = judged
        return not isinstance(judged, Wrong)

    def record_of(self, controls: ControlsFile) -> Stress | None:
        """What the draws of ``controls``, or of others with the same machine code, gave; None where stress is off."""
        return self._records.get(built_key(self.benchmark, controls))

    def hold(self, controls: ControlsFile) -> Stress | Wrong | None:
        """Run the body with ``controls`` on as many draws as the marker asks for and the time allows.

        Returns the results, or the first wrong draw; None where none are asked for, or the kernel cannot run here.
        """
        benchmark = self.benchmark
        if benchmark.spec.stress == 0 or benchmark.native is not None:
            return None
        if not self.tuning.baseline.drew:
            once = self._draw(controls, 0, bits_promised=False)
            if reason := self._why_not_new(controls, [] if isinstance(once, Wrong) else [once], self.tuning.seed):
                return Wrong(controls, None, reason)
            return Stress(draws=0, repeats=benchmark.spec.repeats)
        self.tuning.progress.say(f"stress: up to {quantity(benchmark.spec.stress, 'draw')}")
        promised = has_to_keep_bits(benchmark.builder, controls, self.tuning.licences)
        first, start = 1 + self.tuning.seed * MOST_DRAWS % _SEEDS, self.clock()
        draws: list[dict[str, Draw] | None] = []
        while len(draws) < benchmark.spec.stress and (len(draws) < FLOOR or self.clock() - start < self.limit_s):
            judged = self._draw(controls, first + len(draws), promised)
            if isinstance(judged, Wrong):
                self.pool.discard(0)
                return judged
            draws.append(judged)
        if reason := self._why_not_new(controls, draws, first):
            return Wrong(controls, None, reason)
        return record_of(first, draws, repeats=benchmark.spec.repeats)

    def _why_not_new(self, controls: ControlsFile, draws: Sequence[dict[str, Draw] | None], first: int) -> str | None:
        """The reason for calls that do not do new work on new input, on the first such workload; None without any.

        ``first``: the seed of the first draw.
        """
        drew = self.tuning.baseline.drew
        for workload in self.benchmark.spec.workloads:
            drawn = [of_all[workload.name] for of_all in draws if of_all is not None]
            reason = why_not_computed(drawn) or why_apart(drawn)
            calls = [each.calls for each in drawn if drew and each.calls is not None]
            if reason is None and (calls or not drew):
                calls += self._first_calls(controls, workload, calls, first + len(draws))
                reason = (why_remembered if drew else why_never_new)(calls)
                if reason and not drew:
                    self.pool.discard(0)  # it holds all the copies
            if reason is not None:
                return f"workload {workload.name!r}: {reason}"
        return None

    def _first_calls(
        self, controls: ControlsFile, workload: Workload, known: Sequence[FirstCalls], seed: int
    ) -> list[FirstCalls]:
        """First calls on more draws, or of copies of both builds, until they decide; fewer where a body bears none."""
        drew, taken, start = self.tuning.baseline.drew, list[FirstCalls](), self.clock()
        while not is_decided([*known, *taken], drawn=drew):
            if len(known) + len(taken) >= FLOOR and self.clock() - start >= self.limit_s:
                break
            try:
                task = FirstCallsTask(workload.name, controls, seed + len(taken), of_copies=not drew)
                calls = self.pool.ask(0, self.benchmark, task)
            except EvaluationFailed:
                break
            if calls is None:
                break
            taken.append(calls)
        return taken

    def _draw(self, controls: ControlsFile, seed: int, bits_promised: bool) -> dict[str, Draw] | Wrong | None:
        """One draw on every workload: what each gave; None where the draw is unusable."""
        drawn = {}
        for workload in self.benchmark.spec.workloads:
            judged = self._on(controls, workload, seed, bits_promised)
            if not isinstance(judged, Draw):
                return judged
            drawn[workload.name] = judged
        return drawn

    def _on(self, controls: ControlsFile, workload: Workload, seed: int, bits_promised: bool) -> Draw | Wrong | None:
        """One draw on one workload; whatever failed on it is repeated before anybody is blamed."""
        benchmark, pool = self.benchmark, self.pool
        task = DrawTask(workload.name, controls, seed, bits_promised)
        try:
            return pool.ask(0, benchmark, task)
        except EvaluationFailed:
            pass
        try:
            pool.ask(_ALONE, benchmark, DrawTask(workload.name, None, seed))
        except EvaluationFailed:
            return None
        pool.discard(_AGAIN)
        try:
            asked_again(partial(pool.ask, _AGAIN, benchmark, task))
        except EvaluationFailed as failure:
            return Wrong(controls, seed, f"workload {workload.name!r} ({failure.kind}): {failure.reason}")
        return None  # it failed once, and held when it was repeated


def repeat_advice(nodeid: str, seed: int | None, controls: str = "") -> str:
    """What repeats one draw: of the committed controls, or of those in the file ``controls``; empty without a seed."""
    if seed is None:
        return ""
    return f"; repeat it: pytest {for_shell(nodeid)} --tune-draw={seed}{f' --tune-from={controls}' if controls else ''}"
