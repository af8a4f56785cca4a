"""The search: ask → build (parallel, ahead where nothing is timed) → drop duplicates → measure → journal → tell."""

from __future__ import annotations

import re
import signal
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import FrameType

from threadpoolctl import ThreadpoolController

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
from pytest_compileiq.search.journal import Batch, Evaluated, Journal
from pytest_compileiq.search.scoring import Key, Scored, Scorer, key_of, name_of
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.workers.pool import EvaluationFailed
from pytest_compileiq.workers.transport import MOST_LOSSES

FEWEST_BATCHES = 8
GENERATION_A_JOB = 8
CANARIES = 6
_LONGEST_NAME = 200
# A debug pack's ACF that turns optimisation off: it changes every kernel, or it was not read.
_NO_OPTIMISATION = re.compile(r"(?<![A-Za-z0-9])O0(?![A-Za-z0-9])")


class NotInjected(TuneFailed):
    """The controls do not reach the compiler: several sets in a row change no machine code."""


class NothingJudged(TuneFailed):
    """Hardly any candidate can be measured, or none differs from the baseline: a verdict would be about nothing."""


class CannotResume(Signal):
    """The engine, told what the journal holds, asks for other candidates than it did before."""


@dataclass(frozen=True)
class _PendingBatch:
    """A batch with its builds begun; ``left``: place → what is still to be evaluated."""

    number: int
    candidates: Sequence[Candidate]
    done: Mapping[int, Evaluated]  # place → an earlier run's evaluation
    left: Mapping[int, tuple[Candidate, ControlsFile, Future[BuildResult | BuildError]]]


@dataclass(frozen=True)
class SearchBrief:
    """The subject of one search, and its collaborators."""

    benchmark: TunedBenchmark
    scorer: Scorer
    journal: Journal
    budget: Budget
    jobs: int
    progress: Progress
    trackers: Trackers
    stands_for: frozenset[str]  # entry functions: a candidate changes no others, unless the test allows it
    withdrawn: Sequence[Withdrawn] = ()  # machine code that was retired and is never proposed again


@dataclass
class Search:
    """One search of one benchmark: spends the budget, and keeps what was scored."""

    brief: SearchBrief
    engine: Engine
    tally: SearchCounts = field(default_factory=SearchCounts)
    scored: dict[Key, Scored] = field(default_factory=dict)  # valid: one for each machine code and set of parameters
    aliases: dict[Key, list[Knobs]] = field(default_factory=dict)  # knobs of every candidate that compiles to it
    offered: set[str] = field(default_factory=set)  # knobs of the candidates whose bodies have run
    read: set[str] = field(default_factory=set)  # parameters that these asked for
    interrupted: bool = False
    is_over: bool = False  # the budget is spent, or the engine has nothing left to ask
    _again: deque[Batch] = field(default_factory=deque)
    _waiting: deque[_PendingBatch] = field(default_factory=deque)
    _seen: dict[Key, Told] = field(default_factory=dict)
    _baseline: str = ""
    _begun: int = 0
    _inert: int = 0
    _bodies: int = 0
    _injected: bool = False
    _attempt: int | None = None

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
        # One batch is built while another is evaluated, except where anything is timed, which a compiler would disturb,
        # and for an engine with generations, which does not ask before it is told.
        ahead = 0 if self.brief.benchmark.timed_objectives or isinstance(self.engine, Checkpointed) else 1
        try:
            with self._interrupts_noted(), closing(BuildQueue(self.brief.benchmark.builds, self.brief.jobs)) as builds:
                while goes_on():
                    while len(self._waiting) <= ahead and (batch := self._ask(builds)):
                        self._waiting.append(batch)
                    if not self._waiting:
                        self.is_over = True
                        break
                    told = self._evaluate(self._waiting.popleft())
                    if reason := self.why_unjudged(at_the_end=False):
                        raise NothingJudged(reason)
                    with one_thread():
                        self.engine.tell(told)
                wait([build for batch in self._waiting for _, _, build in batch.left.values()])
        except KeyboardInterrupt:
            self.interrupted = True
        self.tally.end()

    @contextmanager
    def _interrupts_noted(self) -> Iterator[None]:
        """Note a Ctrl-C as well as raising it: an exception that is raised within a destructor is lost."""

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            self.interrupted = True
            raise KeyboardInterrupt

        if threading.current_thread() is not threading.main_thread():  # no other thread may set a handler
            yield
            return
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def is_catching_up(self) -> bool:
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

    def _ask(self, builds: BuildQueue) -> _PendingBatch | None:
        """The next batch with its builds begun, the earlier run's first; None when there is nothing left to ask."""
        if self._again:
            batch = self._again.popleft()
            with self.brief.journal.reading():
                candidates = self._asked_for(batch.wanted)
            if tuple(candidates) != batch.candidates:
                raise CannotResume
            number, done = self.brief.journal.taken_up(batch), batch.done
        else:
            wanted = self._wanted()
            state = self.engine.checkpoint() if isinstance(self.engine, Checkpointed) else None
            candidates = self._asked_for(wanted) if wanted else []
            if not candidates:
                return None
            number, done = self.brief.journal.asked(wanted, candidates, state), {}
        self._begun += len(candidates)
        left = {place: candidate for place, candidate in enumerate(candidates) if place not in done}
        rendered = {place: self.brief.benchmark.rendered(candidate) for place, candidate in left.items()}
        begun = {place: (left[place], controls, builds.begin(controls)) for place, controls in rendered.items()}
        return _PendingBatch(number, candidates, done, begun)

    def _asked_for(self, wanted: int) -> list[Candidate]:
        with one_thread():
            return self.engine.ask(wanted)

    def _wanted(self) -> int:
        """How many to ask for; 0 once the budget is spent. An engine may give fewer."""
        budget, jobs = self.brief.budget, self.brief.jobs
        if self.interrupted:
            return 0
        if budget.evaluations is None:
            return 0 if budget.seconds is not None and self.tally.seconds >= budget.seconds else BATCH
        # An engine with generations learns nothing within one, so it is asked for several builds a job: builds of
        # unequal length then keep every job busy. Any other learns between batches: they are few enough.
        is_generational = isinstance(self.engine, Checkpointed)
        batch = GENERATION_A_JOB * jobs if is_generational else min(jobs, budget.evaluations // FEWEST_BATCHES)
        return min(max(BATCH, batch), max(budget.evaluations - self._begun, 0))

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
        """Take in what an earlier run evaluated; scores learn from its samples."""
        told, benchmark = {}, self.brief.benchmark
        for place, evaluated in done.items():
            if len(evaluated.scores) not in (0, objectives := len(benchmark.objectives)):
                raise ValueError(f"{len(evaluated.scores)} scores of {objectives} objectives")
            candidate, errors = asked[place], self.brief.scorer.recall(evaluated.rows)
            controls = benchmark.rendered(candidate)
            key = key_of(benchmark, controls, evaluated.digest) if evaluated.digest else None
            self._injected |= candidate.blob is not None and evaluated.digest not in ("", self._baseline)
            self.tally.earlier_s = max(self.tally.earlier_s, evaluated.seconds)
            scored = Scored(evaluated.scores, controls)
            told[place] = self._count(candidate, controls, replace(evaluated, errors=errors), key, scored)
            self.tally.evaluations += 1
        return told

    def _count(
        self, candidate: Candidate, controls: ControlsFile, evaluated: Evaluated, key: Key | None, scored: Scored
    ) -> Told:
        """Take in one evaluation; without a ``key`` nothing was built."""
        self.tally.valid += bool(evaluated.scores)
        if key is not None:
            self.aliases.setdefault(key, []).append(controls.knobs)
            if evaluated.duplicate:
                self.tally.duplicates += 1
                return replace(self._seen[key], candidate=candidate, duplicate=True)
        if evaluated.failure is not None:
            self.tally.fail(evaluated.failure, evaluated.reason)
        code = name_of(key) if key is not None else ""
        told = Told(candidate, evaluated.scores, evaluated.failure, errors=evaluated.errors, code=code)
        if key is not None:
            self._seen[key] = told
            if told.scores:
                self.scored[key] = scored
                self.tally.score(told.scores[0])
        return told

    # ── one batch ────────────────────────────────────────────────────────────────────────────────────────────────

    def _evaluate(self, batch: _PendingBatch) -> list[Told]:
        brief = self.brief
        with brief.journal.reading():
            told = self._remember(batch.candidates, batch.done)
        built = {place: build.result() for place, (_, _, build) in batch.left.items()}
        self._expect_injection([(batch.candidates[place], build) for place, build in built.items()])
        for place, (candidate, controls, _) in batch.left.items():
            self._attempt = None
            key, evaluated, scored = self._judge(controls, built[place], batch.number, place)
            if scored.scores:
                self._bodies += 1
                self.offered |= candidate.knobs.keys()
                self.read |= scored.read
            kind = evaluated.failure
            if kind is not None and not evaluated.duplicate and kind not in self.tally.invalid:
                # At once, since a search may consist of failures alone.
                brief.progress.say(f"the first invalid candidate ({kind}): {evaluated.reason}")
            told[place] = self._count(candidate, controls, evaluated, key, scored)
            brief.journal.finished(batch.number, place, evaluated, self._attempt)
            brief.trackers.tell("evaluated", self.tally.evaluations, candidate, evaluated)
            self.tally.evaluations += 1
            shift = brief.scorer.shift(brief.benchmark.objectives[0], self.tally.best)
            brief.progress.evaluated(self.tally, brief.budget, shift)
        return [told[place] for place in sorted(told)]

    def _expect_injection(self, built: Sequence[tuple[Candidate, BuildResult | BuildError]]) -> None:
        """The canary: an ACF hardly ever changes nothing, so several in a row that do nothing were never read."""
        inert = []
        for candidate, build in built:
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
        self, controls: ControlsFile, build: BuildResult | BuildError, batch: int, place: int
    ) -> tuple[Key | None, Evaluated, Scored]:
        nothing = Scored((), controls)
        if isinstance(build, BuildError):
            return None, Evaluated((), build.kind, str(build), False, "", [], self.tally.seconds), nothing
        key, digest = key_of(self.brief.benchmark, controls, build.digest), build.digest
        before = self._seen.get(key)
        # What is never proposed is judged each time, by whichever run: the journal does not tell it from what failed.
        if (before is None or before.failure is not None) and (never := self.why_never(build)):
            return key, Evaluated((), *never, False, digest, [], self.tally.seconds), nothing
        if before is not None:
            seen = Evaluated(before.scores, before.failure, "", True, digest, [], self.tally.seconds, before.errors)
            return key, seen, nothing
        try:
            scored = self._score(controls, build, batch, place)
        except EvaluationFailed as failure:
            return key, Evaluated((), failure.kind, failure.reason, False, digest, [], self.tally.seconds), nothing
        samples = [list(asdict(row).values()) for row in scored.samples]
        evaluated = Evaluated(scored.scores, None, "", False, digest, samples, self.tally.seconds, scored.errors)
        return key, evaluated, scored

    def _score(self, controls: ControlsFile, build: BuildResult, batch: int, place: int) -> Scored:
        """Score a candidate, again while its worker is lost through no doing of its own, but not for ever."""
        journal = self.brief.journal
        while len(losses := journal.losses(batch, place)) < MOST_LOSSES:
            self._attempt = journal.begun(batch, place)
            try:
                return self.brief.scorer.score(controls, build)
            except EvaluationFailed as failure:
                if failure.kind != "lost":
                    raise
                journal.lost(batch, place, self._attempt, failure.reason)
        named = f"the ACF {controls.sha256[:16]}"
        if controls.kind != "blob":
            named = textwrap.shorten(controls.data.decode(errors="replace"), _LONGEST_NAME, placeholder=" …")
        reason = f"{len(losses)} workers were lost with {named}: {'; '.join(losses)}"
        raise EvaluationFailed(None, "lost", reason)

    def why_never(self, build: BuildResult) -> tuple[FailureKind, str] | None:
        """Why this machine code may not be proposed, whatever it scores, as kind and reason; None when it may."""
        if retired := next((each for each in self.brief.withdrawn if each.is_of(build.code)), None):
            return "wrong", f"withdrawn before: {retired.reason}"
        return why_unfit(self.brief.benchmark, build, self.brief.stands_for)


def one_thread() -> AbstractContextManager[object]:
    """Keep an engine's linear algebra on one thread: small matrices gain little from more, which spin while they wait.

    Beside compilers on every core, that took as long as the compilers did.
    """
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """The libraries with threads of their own: slow to look for, and only an import brings another."""
    return ThreadpoolController()
