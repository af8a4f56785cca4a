"""One benchmark under tuning, with all that its search, proof, reduction and artifact share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Settings, chosen, seed_of_coins
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.model import CONTROL_CLASSES, ControlsFile, Knobs, Licence
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import Progress
from pytest_compileiq.proof import advice
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.report.artifact import kept_notes
from pytest_compileiq.report.claims import report_on, stress_notes
from pytest_compileiq.rules.gate import why_hard_to_hold
from pytest_compileiq.search.finalists import pareto_front
from pytest_compileiq.search.loop import Search
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.option_classes import classes_of, licences_or_unknown
from pytest_compileiq.tuning.baseline import CheckedBaseline, Incumbent, check_baseline, find_incumbent
from pytest_compileiq.workers.pool import Pool

MOST_FRONT_POINTS = 16


@dataclass(frozen=True)
class Tuning:
    """One benchmark, its checked baseline, what is committed, and the run's settings, store and workers."""

    benchmark: TunedBenchmark
    settings: Settings
    store: Store
    pool: Pool
    progress: Progress
    baseline: CheckedBaseline
    incumbent: Incumbent | None
    unread: Sequence[str]  # notes on a stored artifact that could not be used
    seed: int
    coins: int  # the seed of the proofs

    @classmethod
    def begin(
        cls, benchmark: TunedBenchmark, settings: Settings, store: Store, pool: Pool, progress: Progress
    ) -> Tuning:
        """Check the baseline."""
        baseline = check_baseline(benchmark, pool, progress.say)
        given = chosen(settings.seed, benchmark.spec.seed, None)
        found = find_incumbent(benchmark, store)
        return cls(benchmark, settings, store, pool, progress, baseline, *found, given or 0, seed_of_coins(given))

    @cached_property
    def licences(self) -> tuple[Licence, ...]:
        """What the baseline and the sources let a compiler change under any controls: compiling tells, for seconds."""
        return licences_or_unknown(self.benchmark.builder)

    def width(self, knobs: Knobs) -> int:
        """How far ``knobs`` reach: the rank of their widest class, lowest for knobs of the test's own."""
        compiler = self.benchmark.builder.compiler
        own = classes_of(compiler.name, compiler.command, "options", knobs).own
        return CONTROL_CLASSES.index(own[-1]) if own else 0

    def comparison(self, against: ControlsFile | None = None) -> Comparison:
        """Compare finalists with the baseline, or with the committed controls, by coins of their own."""
        seed = self.coins if against is None else self.coins + 1
        return Comparison(self.pool, self.benchmark, against, seed, self.progress.say)

    def report(
        self, verdict: Verdict, message: str, artifact: Artifact | None, wrote: Sequence[str] = ()
    ) -> ItemReport:
        benchmark = self.benchmark
        report = report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, artifact)
        drawn = stress_notes(artifact.claims) if artifact else ()
        written = (*kept_notes(artifact), *self._hard_to_hold(artifact)) if artifact is not None and wrote else ()
        return replace(report, wrote=tuple(wrote), notes=(*report.notes, *drawn, *written))

    def _hard_to_hold(self, artifact: Artifact) -> Iterator[str]:
        for claim in artifact.claims:
            is_here = claim.test is not None and claim.device == self.benchmark.device(claim.objective).name
            if is_here and (told := why_hard_to_hold(claim)):
                yield told

    def advice(self, controls: ControlsFile | None) -> tuple[str, ...]:
        return (*advice.of_the_body(self.benchmark), *advice.of_the_call(self.pool, self.benchmark, controls))


@dataclass(frozen=True)
class Found:
    """What a search of ``engine`` found; ``reduces``: the winner is made small, and its controls are measured."""

    search: Search
    engine: str
    given: Brief
    reduces: bool

    @cached_property
    def front(self) -> list[Scored]:
        """With several objectives, the points that no other point beats."""
        return pareto_front(self.search.scored.values())[:MOST_FRONT_POINTS]
