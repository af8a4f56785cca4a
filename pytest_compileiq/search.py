"""The search: ask → build (parallel) → drop duplicates → measure → tell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pytest_compileiq.builds import changed_beyond
from pytest_compileiq.config import Budget
from pytest_compileiq.engines.base import Engine, Told
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile, SampleRow
from pytest_compileiq.pool import EvaluationFailed, Pool
from pytest_compileiq.report.progress import Progress, Tally
from pytest_compileiq.subject import Subject
from pytest_compileiq.timing.sampler import plan_block

BATCH = 4
BATCH_A_JOB = 8
SEARCH_QUADS = 1
SEARCH_SAMPLES = 3
PLAYOFF = 8
PLAYOFF_ROUNDS = 3
FINALISTS = 3

CANARIES = 6

Key = tuple[str, tuple[tuple[str, object], ...]]


class NotInjected(Exception):
    """The controls do not reach the compiler: drawn one after the other, they change no machine code."""


@dataclass
class Search:
    """One search of one subject; :meth:`run` gives the finalists, best first.

    ``used`` are the entry functions that the test takes from ``load()``: a candidate may change no other.
    """

    pool: Pool
    subject: Subject
    engine: Engine
    budget: Budget
    jobs: int
    random: Random
    progress: Progress
    used: frozenset[str]
    tally: Tally = field(default_factory=Tally)
    _seen: dict[Key, Told] = field(default_factory=dict)
    _scored: dict[Key, tuple[float, ControlsFile]] = field(default_factory=dict)
    _baseline: str = ""
    _inert: int = 0
    _injected: bool = False

    def run(self, baseline: BuildResult) -> list[ControlsFile]:
        """Spend the budget, then play the best off on more samples; at most three distinct machine codes come back.

        Raises:
            NotInjected: the first ACFs drawn leave the machine code as it is.
        """
        self._baseline = baseline.digest
        self._seen[(baseline.digest, ())] = Told(Candidate({}), (0.0,))
        while not self._spent() and (asked := self.engine.ask(self._batch())):
            self.engine.tell(self._evaluate(asked))
        return self._playoff()

    def _spent(self) -> bool:
        if self.budget.evaluations is not None:
            return self.tally.evaluations >= self.budget.evaluations
        return self.tally.seconds >= (self.budget.seconds or 0.0)

    def _batch(self) -> int:
        """How many to ask for: enough that builds of unequal length keep every job busy. An engine may give fewer."""
        if self.budget.evaluations is None:
            return BATCH
        return min(max(BATCH, BATCH_A_JOB * self.jobs), self.budget.evaluations - self.tally.evaluations)

    def _evaluate(self, asked: Sequence[Candidate]) -> list[Told]:
        rendered = [self.subject.resolved.render(candidate) for candidate in asked]
        built = self.subject.builds.try_all(rendered, self.jobs)
        self._expect_injection(asked, built)
        told = []
        for candidate, controls, build in zip(asked, rendered, built, strict=True):
            told.append(self._judge(candidate, controls, build))
            self.tally.evaluations += 1
            self.progress.evaluated(self.tally, self.budget)
        return told

    def _expect_injection(self, asked: Sequence[Candidate], built: Sequence[BuildResult | BuildError]) -> None:
        """The canary: an ACF hardly ever changes nothing, so several in a row that do nothing were never read."""
        if self._injected:
            return
        acfs = [build for candidate, build in zip(asked, built, strict=True) if candidate.blob is not None]
        digests = [build.digest for build in acfs if isinstance(build, BuildResult)]
        self._injected = any(digest != self._baseline for digest in digests)
        self._inert += len(digests)
        if not self._injected and self._inert >= CANARIES:
            raise NotInjected(
                f"{self._inert} ACFs in a row change no machine code, so they do not reach the compiler: check that "
                f"the command is the one that compiles the kernel: {' '.join(self.subject.resolved.compiler.command)}"
            )

    def _judge(self, candidate: Candidate, controls: ControlsFile, build: BuildResult | BuildError) -> Told:
        if isinstance(build, BuildError):
            self.tally.fail(build.kind, str(build))
            return Told(candidate, failure=build.kind)
        params = tuple(sorted((name, value) for name, value in candidate.knobs.items() if not name.startswith("-")))
        compiling = self.subject.objective.metric == "compile_time"  # equal code may take another time to make
        key: Key = (controls.key if compiling else build.digest, params)
        if key in self._seen:
            self.tally.duplicates += 1
            before = self._seen[key]
            return Told(candidate, before.scores, before.failure, duplicate=True)
        if beyond := changed_beyond(self.subject.builds.get(None), build, self.used):
            reason = f"also changes {', '.join(beyond)}, which the test does not take from load()"
            self.tally.fail("wrong", reason)
            return Told(candidate, failure="wrong")
        told = self._measure(candidate, controls, build)
        self._seen[key] = told
        if told.scores:
            self._scored[key] = (told.scores[0], controls)
            self.tally.best = min(self.tally.best, told.scores[0])
        return told

    def _measure(self, candidate: Candidate, controls: ControlsFile, build: BuildResult) -> Told:
        try:
            return Told(candidate, (self._score(controls, build),))
        except EvaluationFailed as failure:
            self.tally.fail(failure.kind, failure.reason)
            return Told(candidate, failure=failure.kind)

    def _score(self, controls: ControlsFile, build: BuildResult) -> float:
        """The log-ratio to the baseline, lower is better; correctness is checked on every workload first."""
        for workload in self.subject.checked_workloads:
            self.pool.check(0, self.subject, controls, workload)
        if self.subject.objective.exact:
            for workload in self.subject.timed_workloads:
                self.pool.check(0, self.subject, controls, workload)
            return exact_score(self.subject, build)
        return self._timed_score(controls)

    def _timed_score(self, controls: ControlsFile) -> float:
        total = sum(workload.weight for workload in self.subject.timed_workloads)
        score = 0.0
        for workload in self.subject.timed_workloads:
            plan = plan_block(self.random, quads=SEARCH_QUADS, samples=SEARCH_SAMPLES)
            rows, _ = self.pool.block(0, self.subject, {"baseline": None, "tuned": controls}, workload, plan)
            score += workload.weight / total * log_ratio(rows, self.subject.objective.direction)
        return score

    def _playoff(self) -> list[ControlsFile]:
        """The best few are measured again before they become finalists: the luckiest sample is not the best code."""
        ranked = sorted(self._scored.values(), key=lambda entry: entry[0])
        better = [(score, controls) for score, controls in ranked if score < 0][:PLAYOFF]
        if self.subject.objective.exact:
            return [controls for _, controls in better[:1]]
        if better:
            self.progress.say(f"play-off of the best {len(better)}")
        settled = []
        for _, controls in better:
            try:
                settled.append(
                    (statistics.median(self._timed_score(controls) for _ in range(PLAYOFF_ROUNDS)), controls)
                )
            except EvaluationFailed as failure:
                self.tally.fail(failure.kind, failure.reason)
        settled.sort(key=lambda entry: entry[0])
        return [controls for score, controls in settled[:FINALISTS] if score < 0]


def exact_score(subject: Subject, build: BuildResult) -> float:
    """The log-ratio of an exact metric to the baseline's, lower is better; a metric of zero counts as one half."""
    metric = subject.objective.metric
    baseline = subject.builds.get(None).metrics[metric]
    ratio = math.log(max(build.metrics[metric], 0.5) / max(baseline, 0.5))
    return ratio if subject.objective.direction == "minimize" else -ratio


def log_ratio(rows: Sequence[SampleRow], direction: str) -> float:
    """Median log of tuned minus median log of baseline, lower is better."""
    by_arm = {arm: [math.log(row.value) for row in rows if row.arm == arm] for arm in ("baseline", "tuned")}
    ratio = statistics.median(by_arm["tuned"]) - statistics.median(by_arm["baseline"])
    return ratio if direction == "minimize" else -ratio
