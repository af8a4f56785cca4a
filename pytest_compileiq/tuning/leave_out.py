"""Controls without some of their parts: what can be left out, what is left then, and how it compares with the whole."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.builds import BuildQueue
from pytest_compileiq.benchmark.spaces import is_same_value
from pytest_compileiq.model import Arm, Candidate, ControlsFile, Knobs, KnobValue, Objective
from pytest_compileiq.rules.gate import LOOKS
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.search.loop import Search
from pytest_compileiq.search.scoring import Key, built_key
from pytest_compileiq.space import Gene
from pytest_compileiq.timing.sampler import plan_block
from pytest_compileiq.tuning.context import Tuning
from pytest_compileiq.workers.messages import CheckTask
from pytest_compileiq.workers.pool import asked_again

WORKERS = LOOKS[0]  # that the proof begins with, in any case
_QUADS, _SAMPLES = 1, 3  # of a block, as in the search
Rows = dict[tuple[Objective, str], list[SampleRow]]  # by objective and the workload's name


@dataclass(frozen=True)
class ControlPart:
    """What is left out as one: a knob, all knobs of a group that is on or off as a whole, or the ACF beside them."""

    knobs: tuple[str, ...] = ()
    acf: bool = False


@dataclass(frozen=True)
class ControlParts:
    """The parts of one set of controls.

    A knob that the space always has is no part, unless the baseline has a value for it, which it then gets.
    """

    benchmark: TunedBenchmark
    controls: ControlsFile

    @cached_property
    def all(self) -> tuple[ControlPart, ...]:
        """In the space's order, the ACF last."""
        parts = dict.fromkeys(part for gene in self._genes if (part := self._part_of(gene)) is not None)
        acf = [ControlPart(acf=True)] if self.controls.kind == "blob" and self.benchmark.space.genes else []
        return (*parts, *acf)

    def count(self, controls: ControlsFile | None) -> int:
        """How many controls say something else than the baseline; an ACF is one."""
        knobs = controls.knobs if controls else {}
        differing = [name for name, value in knobs.items() if not is_same_value(self._baseline.get(name), value)]
        return len(differing) + (controls is not None and controls.kind == "blob")

    def knobs_of(self, part: ControlPart) -> Knobs:
        return {name: self.controls.knobs[name] for name in part.knobs}

    def without(self, left_out: Collection[ControlPart]) -> ControlsFile | None:
        """The controls without some parts; None where nothing that differs from the baseline is left."""
        candidate = self._candidate(left_out)
        controls = self.benchmark.rendered(candidate)
        return controls if self.count(controls) else None

    def why_not(self, left_out: Collection[ControlPart]) -> str | None:
        """Why the space does not hold the controls without some parts, or None when it does."""
        return self.benchmark.why_outside(self._candidate(left_out))

    def _candidate(self, left_out: Collection[ControlPart]) -> Candidate:
        names = {name for part in left_out for name in part.knobs}
        always_on = {gene.name for gene in self._genes if gene.knockout_prob == 0 and gene.parent is None}
        knobs = {
            name: self._baseline[name] if name in names else value
            for name, value in self.controls.knobs.items()
            if name not in names or name in always_on
        }
        with_acf = self.controls.kind == "blob" and not any(part.acf for part in left_out)
        return Candidate(knobs, self.controls.data if with_acf else None)

    def _part_of(self, gene: Gene) -> ControlPart | None:
        if gene.knockout_prob > 0:
            return ControlPart((gene.name,))
        if gene.parent is not None:
            return ControlPart(tuple(other.name for other in self._genes if self._is_below(other, gene.parent)))
        known = self._baseline.get(gene.name)
        is_usable = known is not None and not is_same_value(known, self.controls.knobs[gene.name])
        return ControlPart((gene.name,)) if is_usable else None

    def _is_below(self, gene: Gene, switch: int) -> bool:
        above = gene.parent
        while above is not None and above != switch:
            above = self.benchmark.space.genes[above].parent
        return above == switch

    @cached_property
    def _genes(self) -> tuple[Gene, ...]:
        genes = self.benchmark.space.genes
        return tuple(gene for gene in genes if gene.kind != "switch" and gene.name in self.controls.knobs)

    @cached_property
    def _baseline(self) -> Mapping[str, KnobValue]:
        return self.benchmark.baseline_values


class LeaveOuts:
    """Builds, checks and measures a winner of ``search`` without some of its controls, in a bounded time."""

    def __init__(self, tuning: Tuning, search: Search, controls: ControlsFile) -> None:
        self.tuning, self.search, self.controls = tuning, search, controls
        self.benchmark = tuning.benchmark
        self.parts = ControlParts(tuning.benchmark, controls)
        self.varies = search.brief.scorer.varies  # else samples are one number in each arm
        self.search_s = search.tally.seconds  # which bounds everything here
        self.random = Random(tuning.seed)
        self._started = self.until = 0.0  # by ``time.monotonic``, once it is begun

    def start(self, bound_s: float) -> None:
        self._started = time.monotonic()
        self.extend(bound_s)

    def extend(self, bound_s: float) -> None:
        """Go on for ``bound_s`` seconds, which ``seconds`` count with those before."""
        self.until = time.monotonic() + bound_s

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def prepare(self) -> None:
        """Start the workers that the proof begins with, so that their start is in nobody's time."""
        if self.varies and self.benchmark.timed_objectives:
            self.tuning.pool.prepare(range(WORKERS), self.benchmark)

    def build(self, several: Iterable[ControlsFile | None]) -> None:
        """Build side by side, as many as the time allows."""
        queue = BuildQueue(self.benchmark.builds, self.tuning.settings.jobs)
        try:
            for future in [queue.begin(controls) for controls in several if controls is not None]:
                future.result(timeout=max(0.0, self.until - time.monotonic()))
        except TimeoutError:
            pass
        finally:
            queue.close()

    def key_of(self, controls: ControlsFile | None) -> Key:
        return built_key(self.benchmark, controls)

    def check(self, controls: ControlsFile | None) -> None:
        for workload in self.benchmark.spec.workloads:
            asked_again(partial(self.tuning.pool.ask, 0, self.benchmark, CheckTask(workload.name, controls)))

    def sample(self, rows: Rows, number: int, other: ControlsFile | None) -> None:
        """Add a block of each timed workload to ``rows``: process ``number``, ``other`` in the tuned arm."""
        arms: Mapping[Arm, ControlsFile | None] = {"baseline": self.controls, "tuned": other}
        samples, worker = (_SAMPLES, number % WORKERS) if self.varies else (1, 0)
        for workload in self.benchmark.timed_workloads:
            plan = plan_block(self.random, quads=_QUADS, samples=samples, discard=self.varies)
            block = asked_again(partial(self.tuning.pool.block, worker, self.benchmark, arms, workload, plan))
            for objective in self.benchmark.timed_objectives:
                own = [replace(row, process=number) for row in block.of(objective.metric)]
                rows.setdefault((objective, workload.name), []).extend(own)
