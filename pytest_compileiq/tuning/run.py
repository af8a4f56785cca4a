"""``pytest --tune`` for one benchmark: baseline → search → proof → reduction → attribution → store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Budget, Settings, chosen
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import BuildResult, Candidate, Lesson
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import Progress
from pytest_compileiq.proof.advice import of_short_calls
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.rules.gate import why_hard_to_hold
from pytest_compileiq.rules.stopping import unread_text
from pytest_compileiq.search.journal import Earlier, Journal, open_journal
from pytest_compileiq.search.loop import CannotResume, NothingJudged, NotInjected, Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers, make_tracker
from pytest_compileiq.spelling import quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.project_settings import named_options
from pytest_compileiq.toolchains.option_classes import option_list
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.tuning.baseline import starting_points, tell_noise
from pytest_compileiq.tuning.context import Found, Tuning
from pytest_compileiq.tuning.decision import prove_committed, refusal_of, settle
from pytest_compileiq.tuning.lessons import lessons_for, taught_text
from pytest_compileiq.tuning.winner import Winner, prove_winner
from pytest_compileiq.workers.pool import EvaluationFailed, Pool


@dataclass
class TuningRun:
    """One benchmark, searched in one turn or many and closed by its only proof; made by ``open_run``."""

    tuning: Tuning
    brief: SearchBrief
    engine: str
    identity: Mapping[str, str]
    seeds: Sequence[Candidate]
    lessons: Sequence[Lesson]  # from other artifacts when the search began; at first, from those that are stored now
    unused: Sequence[str]  # notes on starting points that were left out
    unread: Sequence[str]  # notes on stored artifacts that could not be used
    search: Search = field(init=False)
    given: Brief = field(init=False)  # the engine's brief at the start

    def __post_init__(self) -> None:
        """Resume an earlier run's search, unless something that it depends on has changed."""
        tuning = self.tuning
        if tuning.settings.fresh:
            self.brief.journal.clear()
        earlier = self._begin_search()
        say = tuning.progress.say
        if earlier.changed:
            say(f"an earlier search cannot go on, since its {earlier.changed} changed: starting anew")
        if kept := sum(len(batch.done) for batch in earlier.batches):
            kept_text = f"{quantity(kept, 'evaluation')} of an earlier run {'is' if kept == 1 else 'are'} kept"
            say(f"resuming: {kept_text}; --tune-fresh starts anew")
        elif self.lessons:
            say(taught_text(self.lessons))
        self.search.begin(tuning.baseline.built, earlier.batches)

    def advance(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Search while ``goes_on``, and the budget lasts."""
        with _failures_named(self.tuning.benchmark, self.brief.journal):
            try:
                self.search.advance(goes_on)
            except CannotResume:
                self.tuning.progress.say("the engine does not go on from the earlier run: starting anew")
                self.brief.journal.clear()
                self._begin_search()
                self.search.begin(self.tuning.baseline.built, ())
                self.search.advance(goes_on)

    def close(self, *, reduces: bool) -> ItemReport:
        """Prove the best of the search, reduced if told; store it, and forget the search unless it was interrupted."""
        tuning, search = self.tuning, self.search
        found = Found(search, self.engine, self.given, reduces and not search.interrupted)
        with _failures_named(self.tuning.benchmark, self.brief.journal):
            winner = prove_winner(tuning, found)
        refused = [refusal_of(tuning, wrong, found) for wrong in winner.wrong]
        report = settle(tuning, winner, found)
        self.brief.trackers.tell("end", report.verdict, report.message)
        if not search.interrupted:
            self.brief.journal.clear()
        notes = (*report.notes, *self._notes(report, winner, refused))
        return replace(report, notes=notes, interrupted=search.interrupted)

    def _notes(self, report: ItemReport, winner: Winner, refused: Sequence[str]) -> Iterator[str]:
        tuning, search, proof = self.tuning, self.search, winner.proof
        benchmark = tuning.benchmark
        controls = None if isinstance(proof, NoWinner) else proof.winner
        if search.interrupted:
            yield f"interrupted after {search.tally.evaluations}: the same command goes on"
        if isinstance(proof, Proof) and proof.passed_over:
            yield proof.passed_over
        yield from (*self.unused, *refused, *_search_notes(search))
        if isinstance(proof, NoWinner):
            yield from proof.advice
        elif winner.undecided or any(map(why_hard_to_hold, proof.claims)):
            yield from (f"this machine is noisy for these claims: {said}" for said in proof.advice)
        yield from tuning.advice(controls)
        if report.verdict is Verdict.TUNED and controls is not None:
            # Without this line of settings, the verbs that do not see the test refuse the winner.
            known = option_list(benchmark.builder.compiler.name, benchmark.builder.compiler.command)
            named = named_options(tuning.settings.options, tuning.settings.ini_file)
            if known is not None and (foreign := known.foreign(options_of(controls.knobs), named)):
                add = f"add to {named.where}: {named.line_for(*foreign)}"
                yield f"acf flags, acf export and acf check do not see the test's space: {add}"
        yield from (*self.unread, *tuning.baseline.unchecked)
        if benchmark.native is not None:
            yield f"correctness was not checked beyond the build: {benchmark.native}"
        if benchmark.absent is not None:
            yield f"energy was left out: {benchmark.absent}"
        yield from tuning.pool.remarks(benchmark)

    def _begin_search(self) -> Earlier:
        earlier = self.brief.journal.begin(self.identity, self.seeds, self.lessons)
        self.lessons = earlier.lessons
        benchmark = self.tuning.benchmark
        metrics = [objective.metric for objective in benchmark.objectives]
        given = Brief(benchmark.space, self.tuning.seed, len(metrics), self.brief.budget.evaluations, earlier.seeds,
                      benchmark.spec.engine_options, self.lessons, metrics)  # fmt: skip
        self.search, self.given = Search(self.brief, make(self.engine, given)), given
        return earlier


@contextmanager
def _failures_named(benchmark: TunedBenchmark, journal: Journal | None = None) -> Iterator[None]:
    """Name the benchmark in a failure; what shows that nothing can be judged ends its search, too."""
    try:
        yield
    except (TuneFailed, EvaluationFailed) as error:
        said = str(error) if str(error).startswith(benchmark.nodeid) else f"{benchmark.nodeid}: {error}"
        if isinstance(error, NotInjected | NothingJudged) and journal is not None:
            journal.clear()
            said += "; nothing was written"
        raise TuneFailed(said) from error


@contextmanager
def open_run(
    benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress, budget: Budget
) -> Iterator[TuningRun]:
    """Check the baseline, and resume or begin a search, whose journal is locked until this is left."""
    benchmark.try_options()
    tell_noise(benchmark, progress)
    engine = choose(chosen(settings.engine, benchmark.spec.engine, settings.ini_engine), benchmark.space)
    with _failures_named(benchmark):
        tuning = Tuning.begin(benchmark, settings, store, pool, progress)
    for said in of_short_calls(pool, benchmark):
        progress.say(said)
    seeds, unused = starting_points(benchmark, settings.start_from, tuning.incumbent)
    lessons, passed_over = lessons_for(store, benchmark, engine)
    trackers = Trackers([make_tracker(text) for text in settings.trackers], progress.say)
    with open_journal(settings.rootdir, benchmark.nodeid, benchmark.builder.target) as journal:
        brief = SearchBrief(
            benchmark, Scorer(pool, benchmark, Random(tuning.seed)), journal, budget, settings.jobs, progress, trackers,
            tuning.baseline.stands_for, tuning.incumbent.artifact.withdrawn if tuning.incumbent else (),
        )  # fmt: skip
        identity = identity_of(benchmark, tuning.baseline.built, engine, tuning.seed, settings)
        metrics = [objective.metric for objective in benchmark.objectives]
        trackers.tell("begin", benchmark.name, benchmark.builder.target, metrics, identity)
        yield TuningRun(tuning, brief, engine, identity, seeds, lessons, unused, (*tuning.unread, *passed_over))


def tune(benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store it; without a budget, prove the stored.

    Raises:
        MarkerError: the compiler does not take an option of the marker's space.
        TuneFailed: the baseline is unusable, nothing was measured or evidence was lost. Nothing is written then.
        StoreError: the store could not be written.
    """
    budget = chosen(settings.budget, benchmark.spec.budget, settings.ini_budget)
    if budget.proof_only:
        tell_noise(benchmark, progress)
        with _failures_named(benchmark):
            tuning = Tuning.begin(benchmark, settings, store, pool, progress)
            report = prove_committed(tuning)
        return replace(report, notes=(*report.notes, *tuning.baseline.unchecked, *pool.remarks(benchmark)))
    with open_run(benchmark, settings=settings, store=store, pool=pool, progress=progress, budget=budget) as run:
        run.advance()
        return run.close(reduces=settings.reduce)


def identity_of(
    benchmark: TunedBenchmark, baseline: BuildResult, engine: str, seed: int, settings: Settings
) -> dict[str, str]:
    """All that a search depends on, by the names that a change of it is reported with."""
    fingerprint, compiler = benchmark.fingerprint, benchmark.builder.compiler
    return {
        "benchmark": fingerprint.benchmark,
        **fingerprint.values,
        **fingerprint.environment,
        "command": fingerprint.command,
        "compiler": f"{compiler.name} {compiler.version} {compiler.build}",
        "baseline's machine code" if compiler.compiles else "baseline": baseline.digest,
        "space": benchmark.space.digest,
        "engine": f"{engine} {dict(benchmark.spec.engine_options)}",
        "seed": str(seed),
        "--tune-from": str(settings.start_from),
    }


def _search_notes(search: Search) -> tuple[str, ...]:
    tally = search.tally
    by = " by machine code" if search.brief.benchmark.builder.compiler.compiles else ""
    duplicates = f"{quantity(tally.duplicates, 'duplicate')}{by}"
    spent = f"{quantity(tally.evaluations, 'evaluation')} in {tally.seconds:.0f} s, {duplicates}"
    invalid = [f"{count} invalid ({kind}): {tally.first_reason[kind]}" for kind, count in sorted(tally.invalid.items())]
    space = search.brief.benchmark.space
    bounded = (f"the space has {space.size_text}",) if space.where is not None else ()
    unread = (unread_text(search.unread, search.read - search.offered),) if search.unread else ()
    return (spent, *bounded, *invalid, *unread)
