"""Whether fewer controls do what the winner of a search does: the same machine code, or surely no measured loss."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import BuildResult, ControlsFile, Objective
from pytest_compileiq.proof.claims import exact_loss, score_loss
from pytest_compileiq.rules.comparison import steady_values
from pytest_compileiq.rules.reduction import LEVEL, LOOKS, is_within, loss_budget, paired_losses
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.search.scoring import Key, Scored, built_key
from pytest_compileiq.tuning.leave_out import Bench, ControlPart, ControlParts, Rows
from pytest_compileiq.workers.pool import EvaluationFailed

Kept = frozenset[ControlPart]
AIM = 0.5  # of a budget: the smallest of many sets seems better than it is, and the proof holds it to all of it
ENOUGH = LOOKS[0]  # pairs of blocks after which a mean says something


@dataclass
class ReductionTrial:
    """Compares subsets of the winner's controls with the full winner, for at most ``bound_s`` seconds."""

    bench: Bench
    parts: ControlParts
    winner: Scored
    bound_s: float
    _started: float = field(default_factory=time.monotonic)
    _verdicts: dict[Kept, bool | None] = field(default_factory=dict)
    _sound: set[Key] = field(default_factory=set)
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._random = Random(self.bench.seed)
        self._until = self._started + self.bound_s
        self._sound.add(self._key_of(self.winner.controls))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return self._stopped or time.monotonic() >= self._until

    @cached_property
    def budgets(self) -> Mapping[str, float]:
        """Timed metric → the largest loss, by the gain that the play-off saw."""
        gains = zip(self.bench.benchmark.objectives, self.winner.scores, strict=True)
        return {objective.metric: loss_budget(-score) for objective, score in gains if not objective.exact}

    def with_more_time(self, bound_s: float) -> ReductionTrial:
        """One that goes on for ``bound_s`` seconds, and knows what was decided."""
        decided = {kept: verdict for kept, verdict in self._verdicts.items() if verdict is not None}
        return replace(self, bound_s=bound_s, _started=time.monotonic(), _verdicts={**decided})

    def controls(self, kept: Kept) -> ControlsFile:
        return self._controls(kept) or self.winner.controls

    def undecided(self, smallest: Kept) -> frozenset[str]:
        """Those of these parts that might bring nothing, each by its first knob; an ACF has the name that is none."""
        rests = {part: smallest - {part} for part in smallest}
        return frozenset(
            "".join(part.knobs[:1])
            for part, rest in rests.items()
            if self._controls(rest) is not None and self._verdicts.get(rest) is None
        )

    def expect(self, sets: Sequence[Kept]) -> None:
        if not self.is_over:
            wanted = [kept for kept in sets if kept not in self._verdicts and self._why_not(kept) is None]
            self.bench.build(map(self._controls, wanted), self._until)

    def absent_from_aliases(self, parts: Sequence[ControlPart]) -> list[ControlPart]:
        """Those of ``parts`` that some candidate of the search did without, and had the winner's machine code."""
        aliases = self.bench.aliases.get(self._key_of(self.winner.controls), ())
        return [part for part in parts if any(not knobs.keys() & set(part.knobs) for knobs in aliases) and not part.acf]

    def has_same_code(self, kept: Kept, other: Kept) -> bool:
        """Whether these parts alone make the machine code of ``other``, and give its parameters."""
        if self._built(kept) is None:
            return False
        return self._key_of(self._controls(kept)) == self._key_of(self._controls(other))

    def guess(self, kept: Kept, share: float = 1.0) -> bool:
        """Whether these parts alone seem to lose at most this share of the budget, by counts and one block of each."""
        build, rows = self._built(kept), Rows()
        try:
            if build is None or self._has_lost(build):
                return False
            self._sample(rows, 0, kept)
            return self._seems_within(rows, share)
        except (EvaluationFailed, StoreError):
            return False

    def holds(self, kept: Kept) -> bool:
        """Whether these parts alone are surely as good as the winner, within their part of the budget, and correct."""
        if kept not in self._verdicts:
            self._verdicts[kept] = self._verdict(kept)
        return self._verdicts[kept] is True

    def _verdict(self, kept: Kept) -> bool | None:
        if self.is_over:
            return None
        build = self._built(kept)
        if build is None:
            return False
        if (key := self._key_of(self._controls(kept))) in self._sound:
            return True
        if self.bench.why_never(build):
            return False
        try:
            verdict = not self._has_lost(build) and self._measured(kept)
            if verdict:
                self.bench.check(self._controls(kept))
        except EvaluationFailed as failure:
            # Neither says anything about these parts: the winner itself failed, or others compute on the device.
            self._stopped = failure.arm == "baseline" or failure.kind == "disturbed"
            return None if self._stopped else False
        except StoreError:  # samples were lost
            return None
        if verdict:
            self._sound.add(key)
        return verdict

    def _measured(self, kept: Kept) -> bool | None:
        """Sequentially: whether every objective on every workload is within its aim; True without timed ones.

        What is still open in the end, and seems to lose no more than half of it, is taken: the proof decides on more
        samples. What seems to lose more than all of it is given up for another set.
        """
        rows: Rows = {}
        if not self.bench.benchmark.timed_objectives:
            return True
        pairs = 0
        while pairs < LOOKS[-1] and not self.is_over:
            self._sample(rows, pairs, kept)
            pairs += 1
            if pairs in LOOKS or not self.bench.varies:
                verdicts = [self._compared(objective, rows[objective, workload]) for objective, workload in rows]
                if False in verdicts or (all(verdicts) and (pairs > ENOUGH or not self.bench.varies)):
                    return all(verdicts)
                if pairs >= ENOUGH and not self._seems_within(rows, 1.0):
                    break
        return (pairs >= ENOUGH and self._seems_within(rows, 0.5)) or None

    def _seems_within(self, rows: Rows, share: float) -> bool:
        for (objective, _), own in rows.items():
            losses = paired_losses(own, objective.direction)
            mean = float(losses.mean()) if losses.size else math.inf  # every block was disturbed
            if not mean <= share * AIM * self.budgets[objective.metric]:  # NaN is within none
                return False
        return True

    def _compared(self, objective: Objective, rows: Sequence[SampleRow]) -> bool | None:
        steady = steady_values(rows) if objective.is_score else None
        if steady is not None:
            return score_loss(objective.direction, *steady) <= 0
        losses = paired_losses(rows, objective.direction)
        return is_within(losses, AIM * self.budgets[objective.metric], LEVEL / len(LOOKS))

    def _sample(self, rows: Rows, number: int, kept: Kept) -> None:
        self.bench.sample(rows, number, self._random, self.winner.controls, self._controls(kept))

    def _has_lost(self, build: BuildResult) -> bool:
        benchmark = self.bench.benchmark
        full = benchmark.builds.get(self.winner.controls)
        try:
            return any(
                exact_loss(objective, *(benchmark.value_of(objective.metric, built) for built in (full, build))) > 0
                for objective in benchmark.exact_objectives
            )
        except BuildError:
            return True

    def _key_of(self, controls: ControlsFile | None) -> Key:
        return built_key(self.bench.benchmark, controls)

    def _built(self, kept: Kept) -> BuildResult | None:
        """The build of these parts; None where the space does not hold them, they do not build or the time is over."""
        controls = self._controls(kept)
        if self.is_over or controls is None or self._why_not(kept) is not None:
            return None
        build = self.bench.benchmark.builds.attempt(controls)
        return build if isinstance(build, BuildResult) else None

    def _why_not(self, kept: Kept) -> str | None:
        return self.parts.why_not(frozenset(self.parts.all) - kept)

    def _controls(self, kept: Kept) -> ControlsFile | None:
        return self.parts.without(frozenset(self.parts.all) - kept)
