"""The search: ask → build (parallel, ahead where nothing is timed) → drop duplicates → measure → journal → tell."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass, field, replace

from pytest_compileiq.artifact import Withdrawn
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import remedy, why_unfit
from pytest_compileiq.benchmark.builds import BuildQueue
from pytest_compileiq.config import BATCH, Budget
from pytest_compileiq.engines.base import Checkpointed, Engine, Told
from pytest_compileiq.errors import BuildError, Signal, TuneFailed
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile, FailureKind, Knobs
from pytest_compileiq.progress import Progress, SearchCounts
from pytest_compileiq.rules.stopping import READ_BY_NOBODY, unread_knobs, unread_text, why_unjudged
from pytest_compileiq.search.attempts import Work
from pytest_compileiq.search.interrupts import noting_interrupts
from pytest_compileiq.search.journal import Batch, Evaluated, Journal
from pytest_compileiq.search.proposer import one_thread
from pytest_compileiq.search.scoring import Key, Scored, Scorer, key_of, name_of
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.workers.pool import EvaluationFailed

FEWEST_BATCHES = 8
GENERATION_A_JOB = 8
CANARIES = 6
# A debug pack's ACF that turns optimisation off: it changes every kernel, or it was not read.
_NO_OPTIMISATION = re.compile(r"(?<![A-Za-z0-9])O0(?![A-Za-z0-9])")


class NotInjected(TuneFailed):
    """The controls do not reach the compiler: several sets in a row change no machine code."""


class NothingJudged(TuneFailed):
    """Hardly any candidate can be measured, or none differs from the baseline: a verdict would be about nothing."""


class CannotResume(Signal):
    """The engine, told what the journal holds, asks for other candidates than it did before."""


@dataclass(frozen=True)
class _Asked:
    """A batch under way.

    Attributes:
        done: place → what an earlier run finished of it.
        rendered, builds: of the candidates that are left, in their order.
    """

    number: int
    candidates: Sequence[Candidate]
    done: Mapping[int, Evaluated]
    rendered: Sequence[ControlsFile]
    builds: Sequence[Future[BuildResult | BuildError]]

    @property
    def left(self) -> dict[int, Candidate]:
        """Place → candidate of what is still to be evaluated."""
        return _left(self.candidates, self.done)


@dataclass(frozen=True)
class SearchBrief:
    """What one search is about and works with.

    Attributes:
        stands_for: entry functions that the test stands for: a candidate changes no others, unless the test allows it.
        withdrawn: machine code that was retired and is never proposed again.
    """

    benchmark: TunedBenchmark
    scorer: Scorer
    journal: Journal
    budget: Budget
    jobs: int
    progress: Progress
    trackers: Trackers
    stands_for: frozenset[str]
    withdrawn: Sequence[Withdrawn] = ()


@dataclass
class Search:
    """One search of one benchmark: spends the budget, and keeps what was scored.

    Attributes:
        scored: the valid candidates, one for each machine code and set of parameters.
        aliases: what makes a measurement one → the knobs of all candidates that it is of.
        offered: knobs of the candidates whose bodies have run.
        read: parameters that these bodies asked for.
        interrupted: Ctrl-C ended it early.
        is_over: the budget is spent, or the engine has nothing left to ask.
    """

    brief: SearchBrief
    engine: Engine
    tally: SearchCounts = field(default_factory=SearchCounts)
    scored: dict[Key, Scored] = field(default_factory=dict)
    aliases: dict[Key, list[Knobs]] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    interrupted: bool = False
    is_over: bool = False
    _again: deque[Batch] = field(default_factory=deque)
    _waiting: deque[_Asked] = field(default_factory=deque)
    _seen: dict[Key, Told] = field(default_factory=dict)
    _baseline: str = ""
    _begun: int = 0
    _inert: int = 0
    _bodies: int = 0
    _injected: bool = False

    def run(self, baseline: BuildResult, earlier: Sequence[Batch]) -> None:
        """Take up what an earlier run left, then spend the rest of the budget; raises as ``advance``."""
        self.begin(baseline, earlier)
        self.advance()

    def begin(self, baseline: BuildResult, earlier: Sequence[Batch]) -> None:
        """Take up what an earlier run left, without evaluating anything."""
        self._baseline = baseline.digest
        key = key_of(self.brief.benchmark, None, baseline.digest)
        self._seen[key] = Told(Candidate({}), (0.0,) * len(self.brief.benchmark.objectives), code=name_of(key))
        with self.brief.journal.reading():
            self._again = self._restored(earlier)
        self.tally.end()

    def advance(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Evaluate batches while ``goes_on``, asked before each, and until the budget is spent.

        Nothing is building when it returns, and what it asks and tells its engine is the same however often it pauses.
        Ctrl-C ends the search early and keeps the rest.

        Raises:
            NotInjected: the first ACFs leave the machine code unchanged.
            NothingJudged: what was evaluated allows no verdict, and more candidates would not help.
            CannotResume: the engine does not go on from what an earlier run left.
        """
        self.tally.go_on()
        try:
            with noting_interrupts(self._interrupt):
                self._advance(goes_on)
        except KeyboardInterrupt:
            self.interrupted = True
        self.tally.end()

    def _interrupt(self) -> None:
        self.interrupted = True

    def _advance(self, goes_on: Callable[[], bool]) -> None:
        builds = BuildQueue(self.brief.benchmark.builds, self.brief.jobs)
        try:
            while goes_on():
                while len(self._waiting) <= self._ahead and (asked := self._ask(builds)):
                    self._waiting.append(asked)
                if not self._waiting:
                    self.is_over = True
                    break
                told = self._evaluate(self._waiting.popleft())
                if reason := self.why_unjudged(at_the_end=False):
                    raise NothingJudged(reason)
                with one_thread():
                    self.engine.tell(told)
            wait([build for asked in self._waiting for build in asked.builds])
        finally:
            builds.close()

    @property
    def is_catching_up(self) -> bool:
        """Whether batches of an earlier run are still to be taken up."""
        return bool(self._again)

    def why_unjudged(self, *, at_the_end: bool) -> str | None:
        """Why what was evaluated allows no verdict on the controls, or None when it does, or still may."""
        knobs = self.brief.benchmark.space.knob_genes
        enough = self._bodies >= READ_BY_NOBODY or (at_the_end and self._bodies)
        if enough and self.brief.benchmark.space.opaque is None and set(self.unread) == self.offered and knobs:
            return f"{unread_text(self.unread, self.read - self.offered)}, so that every candidate is the baseline"
        return why_unjudged(
            len(self.scored), self.tally.valid, self.tally.invalid, self.tally.first_reason,
            remedy(self.brief.benchmark, self.brief.stands_for), at_the_end=at_the_end,
        )  # fmt: skip

    @property
    def unread(self) -> tuple[str, ...]:
        """Parameters that candidates varied and that nothing read."""
        builder = self.brief.benchmark.builder
        return unread_knobs(self.offered, self.read, builder.knobs_taken)

    @property
    def _ahead(self) -> int:
        """How many batches are asked for and being built while one is evaluated.

        Zero where anything is timed: a compiler beside a measurement would disturb it. Zero for an engine with
        generations, which does not ask before it is told.
        """
        return 0 if self.brief.benchmark.timed_objectives or isinstance(self.engine, Checkpointed) else 1

    def _ask(self, builds: BuildQueue) -> _Asked | None:
        """The next batch with its builds begun, the earlier run's first; None when there is nothing left to ask."""
        if self._again:
            batch = self._again.popleft()
            with self.brief.journal.reading():
                candidates = self._asked_for(batch.wanted)
            if tuple(candidates) != batch.candidates:
                raise CannotResume
            number, done = self.brief.journal.taken_up(batch), batch.done
        else:
            wanted = 0 if self._spent() else self._wanted()
            state = self.engine.checkpoint() if isinstance(self.engine, Checkpointed) else None
            candidates = self._asked_for(wanted) if wanted else []
            if not candidates:
                return None
            number, done = self.brief.journal.asked(wanted, candidates, state), {}
        self._begun += len(candidates)
        left = _left(candidates, done).values()
        rendered = [self.brief.benchmark.rendered(candidate) for candidate in left]
        return _Asked(number, candidates, done, rendered, [builds.begin(controls) for controls in rendered])

    def _asked_for(self, wanted: int) -> list[Candidate]:
        with one_thread():
            return self.engine.ask(wanted)

    def _spent(self) -> bool:
        if self.interrupted:
            return True
        if self.brief.budget.evaluations is not None:
            return self._begun >= self.brief.budget.evaluations
        return self.brief.budget.seconds is not None and self.tally.seconds >= self.brief.budget.seconds

    def _wanted(self) -> int:
        """How many to ask for: a build for every job, but few enough that the engine learns between batches.

        An engine with generations learns nothing within one, so it is asked for several builds a job: builds of unequal
        length then keep every job busy. An engine may give fewer.
        """
        if self.brief.budget.evaluations is None:
            return BATCH
        left = self.brief.budget.evaluations - self._begun
        if isinstance(self.engine, Checkpointed):
            return min(max(BATCH, GENERATION_A_JOB * self.brief.jobs), left)
        return min(max(BATCH, min(self.brief.jobs, self.brief.budget.evaluations // FEWEST_BATCHES)), left)

    # ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _restored(self, earlier: Sequence[Batch]) -> deque[Batch]:
        """The batches that bring the engine back to where it was, to be asked and told again in the same order.

        An engine that is restored from its checkpoint needs only the last one, which may not have been finished.
        """
        if not (isinstance(self.engine, Checkpointed) and earlier and earlier[-1].state is not None):
            return deque(earlier)
        self.engine.restore(earlier[-1].state)
        for batch in earlier[:-1]:
            self._remember(batch.candidates, batch.done)
            self._begun += len(batch.candidates)
            self.brief.journal.taken_up(batch)
        return deque(earlier[-1:])

    def _remember(self, asked: Sequence[Candidate], done: Mapping[int, Evaluated]) -> dict[int, Told]:
        """Count finished evaluations as if they had been made now, in the same order; returns place → what to tell."""
        return {place: self._count(asked[place], evaluated) for place, evaluated in done.items()}

    def _count(self, candidate: Candidate, evaluated: Evaluated) -> Told:
        if len(evaluated.scores) not in (0, objectives := len(self.brief.benchmark.objectives)):
            raise ValueError(f"{len(evaluated.scores)} scores of {objectives} objectives")
        errors = self.brief.scorer.recall(evaluated.rows)
        told = Told(candidate, evaluated.scores, evaluated.failure, errors=errors)
        self.tally.earlier_s = max(self.tally.earlier_s, evaluated.seconds)
        self.tally.valid += bool(evaluated.scores)
        if evaluated.failure is not None and not evaluated.duplicate:
            self.tally.fail(evaluated.failure, evaluated.reason)
        self.tally.duplicates += evaluated.duplicate
        if evaluated.digest:
            controls = self.brief.benchmark.rendered(candidate)
            key = key_of(self.brief.benchmark, controls, evaluated.digest)
            self.aliases.setdefault(key, []).append(controls.knobs)
            if evaluated.duplicate:
                told = replace(self._seen[key], candidate=candidate, duplicate=True)
            else:
                told = replace(told, code=name_of(key))
                self._keep(key, told, Scored(evaluated.scores, controls))
        self._injected |= candidate.blob is not None and evaluated.digest not in ("", self._baseline)
        self.tally.evaluations += 1
        return told

    # ── one batch ────────────────────────────────────────────────────────────────────────────────────────────────

    def _evaluate(self, asked: _Asked) -> list[Told]:
        with self.brief.journal.reading():
            told = self._remember(asked.candidates, asked.done)
        built = [build.result() for build in asked.builds]
        self._expect_injection(list(asked.left.values()), built)
        for (place, candidate), controls, build in zip(asked.left.items(), asked.rendered, built, strict=True):
            work = Work(self.brief.journal, asked.number, place, controls)
            told[place], evaluated = self._judge(candidate, controls, build, work)
            self.tally.valid += bool(evaluated.scores)
            work.finish(evaluated)
            self.brief.trackers.evaluated(self.tally.evaluations, candidate, evaluated)
            self.tally.evaluations += 1
            shift = self.brief.scorer.shift(self.brief.benchmark.objectives[0], self.tally.best)
            self.brief.progress.evaluated(self.tally, self.brief.budget, shift)
        return [told[place] for place in sorted(told)]

    def _expect_injection(self, asked: Sequence[Candidate], built: Sequence[BuildResult | BuildError]) -> None:
        """The canary: an ACF hardly ever changes nothing, so several in a row that do nothing were never read."""
        inert = []
        for candidate, build in zip(asked, built, strict=True):
            if candidate.blob is not None and isinstance(build, BuildResult):
                changed = build.digest != self._baseline
                self._injected = self._injected or changed
                inert += [] if changed else [candidate.origin]
        self._inert += len(inert)
        telling = [origin for origin in inert if _NO_OPTIMISATION.search(origin)]
        if not self._injected and (telling or self._inert >= CANARIES):
            what = f"{telling[0]} changes" if telling else f"{self._inert} ACFs in a row change"
            command = " ".join(self.brief.benchmark.builder.compiler.command)
            raise NotInjected(
                f"{what} no machine code, so controls do not reach the compiler: check that "
                f"the command is the one that compiles the kernel: {command}"
            )

    def _judge(
        self, candidate: Candidate, controls: ControlsFile, build: BuildResult | BuildError, work: Work
    ) -> tuple[Told, Evaluated]:
        """What to tell of a candidate, and what to write of it."""
        if isinstance(build, BuildError):
            self._fail(build.kind, str(build))
            return self._evaluated(Told(candidate, failure=build.kind), str(build))
        key = key_of(self.brief.benchmark, controls, build.digest)
        self.aliases.setdefault(key, []).append(controls.knobs)
        if key in self._seen:
            self.tally.duplicates += 1
            before = replace(self._seen[key], candidate=candidate, duplicate=True)
            return self._evaluated(before, "", build.digest)
        if never := self.why_never(build):
            kind, reason = never
            self._fail(kind, reason)
            return self._evaluated(Told(candidate, failure=kind, code=name_of(key)), reason, build.digest)
        try:
            scored = work.ask(lambda: self.brief.scorer.score(controls, build))
        except EvaluationFailed as failure:
            self._fail(failure.kind, failure.reason)
            told = Told(candidate, failure=failure.kind, code=name_of(key))
            self._keep(key, told, Scored((), controls))
            return self._evaluated(told, failure.reason, build.digest)
        self._bodies += 1
        self.offered |= candidate.knobs.keys()
        self.read |= scored.read
        told = Told(candidate, scored.scores, errors=scored.errors, code=name_of(key))
        self._keep(key, told, scored)
        return self._evaluated(told, "", build.digest, scored)

    def _fail(self, kind: FailureKind, reason: str) -> None:
        """Count a failure; the first of its kind is shown at once, since a search may consist of failures alone."""
        if kind not in self.tally.invalid:
            self.brief.progress.say(f"the first invalid candidate ({kind}): {reason}")
        self.tally.fail(kind, reason)

    def why_never(self, build: BuildResult) -> tuple[FailureKind, str] | None:
        """Why this machine code may not be proposed, whatever it scores, as kind and reason; None when it may."""
        if retired := next((each for each in self.brief.withdrawn if each.is_of(build.code)), None):
            return "wrong", f"withdrawn before: {retired.reason}"
        return why_unfit(self.brief.benchmark, build, self.brief.stands_for)

    def _keep(self, key: Key, told: Told, scored: Scored) -> None:
        self._seen[key] = told
        if told.scores:
            self.scored[key] = scored
            self.tally.score(told.scores[0])

    def _evaluated(
        self, told: Told, reason: str, digest: str = "", scored: Scored | None = None
    ) -> tuple[Told, Evaluated]:
        samples = [list(asdict(row).values()) for row in scored.samples] if scored else []
        return told, Evaluated(
            told.scores, told.failure, reason, told.duplicate, digest, samples, self.tally.seconds, told.errors
        )


def _left(candidates: Sequence[Candidate], done: Mapping[int, Evaluated]) -> dict[int, Candidate]:
    return {place: candidate for place, candidate in enumerate(candidates) if place not in done}
