"""``pytest --tune`` for one benchmark: baseline → search → proof → reduction → attribution → store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import recorded_functions
from pytest_compileiq.config import Budget, Settings, chosen, seed_of_coins
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile, Lesson
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import Progress
from pytest_compileiq.proof.advice import of_short_calls
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.prove import NoWinner, Proof
from pytest_compileiq.rules.replay_power import why_hard_to_hold
from pytest_compileiq.rules.stopping import unread_text
from pytest_compileiq.search.finalists import pareto_front
from pytest_compileiq.search.journal import Earlier, Journal, open_journal
from pytest_compileiq.search.loop import CannotResume, NothingJudged, NotInjected, Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers, make_tracker
from pytest_compileiq.spelling import quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.project_settings import named_options
from pytest_compileiq.toolchains.option_classes import option_list
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.tuning.artifact import SearchResult, search_record
from pytest_compileiq.tuning.attribution import attribution_of
from pytest_compileiq.tuning.baseline import (
    CheckedBaseline,
    Incumbent,
    check_baseline,
    find_incumbent,
    starting_points,
    tell_noise,
)
from pytest_compileiq.tuning.decision import Tuning, prove_committed, settle
from pytest_compileiq.tuning.lessons import taught_by, taught_text
from pytest_compileiq.tuning.winner import Outcome, bench_of, dropped_out, prove_best
from pytest_compileiq.workers.pool import EvaluationFailed, Pool


@dataclass
class UnderWay:
    """A search that goes on in turns, and what its proof needs; made by ``under_way``.

    Attributes:
        lessons: what other artifacts taught when the search began; at first, what they teach now.
        dropped: what is said of starting points that could not be used.
        unread: what is said of a stored artifact that could not be read.
        search: as far as it has come.
        given: what the engine was given at the start.
    """

    tuning: Tuning
    settings: Settings
    baseline: CheckedBaseline
    incumbent: Incumbent | None
    journal: Journal
    identity: Mapping[str, str]
    seeds: Sequence[Candidate]
    lessons: Sequence[Lesson]
    brief: SearchBrief
    engine: str
    dropped: Sequence[str]
    unread: Sequence[str]
    search: Search = field(init=False)
    given: Brief = field(init=False)

    def __post_init__(self) -> None:
        """Take up what an earlier run left, unless something that the search depends on has changed."""
        if self.settings.fresh:
            self.journal.clear()
        earlier = self._begun()
        say = self.brief.progress.say
        if earlier.changed:
            say(f"an earlier search cannot go on, since its {earlier.changed} changed: starting anew")
        if kept := sum(len(batch.done) for batch in earlier.batches):
            kept_text = f"{quantity(kept, 'evaluation')} of an earlier run {'is' if kept == 1 else 'are'} kept"
            say(f"resuming: {kept_text}; --tune-fresh starts anew")
        elif self.lessons:
            say(taught_text(self.lessons))
        self.search.begin(self.baseline.built, earlier.batches)

    def advance(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Search while ``goes_on``, and the budget lasts.

        Raises:
            TuneFailed: nothing that was evaluated can be judged; the journal forgets it.
        """
        with self._told():
            try:
                self.search.advance(goes_on)
            except CannotResume:
                self.brief.progress.say("the engine does not go on from the earlier run: starting anew")
                self.journal.clear()
                self._begun()
                self.search.begin(self.baseline.built, ())
                self.search.advance(goes_on)

    def close(self) -> ItemReport:
        """Prove the best of the search, store what was proven, and forget the search unless it was interrupted.

        Raises:
            TuneFailed: the search measured nothing, or evidence was lost. Nothing is written then.
            StoreError: the store could not be written.
            KeyboardInterrupt: the search was interrupted before there was anything to settle.
        """
        search, benchmark = self.search, self.tuning.benchmark
        front = pareto_front(search.scored.values())
        bench = bench_of(self.tuning, self.settings, search)
        with self._told():
            outcome, sound = prove_best(self.tuning, self.settings, search, bench, front, self.incumbent)
        shift = self.brief.scorer.shift
        record = search_record(benchmark, search.tally, self.engine, self.given, shift)
        functions = recorded_functions(benchmark, self.baseline.stands_for)
        fallen = list(dropped_out(benchmark, sound, record, self.incumbent))
        incumbent = self.incumbent
        if incumbent is not None and incumbent.controls is not None and sound.is_wrong(incumbent.controls):
            incumbent = replace(incumbent, controls=None)
        is_small = self.settings.reduce and not search.interrupted
        attribute = partial(attribution_of, bench) if is_small else SearchResult.attribute
        result = SearchResult(
            record, front, functions, shift, outcome.reduction, outcome.made_of, outcome.undecided, attribute
        )
        report = settle(self.tuning, incumbent, outcome.proof, result)
        self.brief.trackers.end(report.verdict, report.message)
        if not search.interrupted:
            self.journal.clear()
        return replace(
            report,
            notes=(*report.notes, *self._notes(report, outcome, fallen)),
            interrupted=search.interrupted,
        )

    def _notes(self, report: ItemReport, outcome: Outcome, fallen: Sequence[str]) -> Iterator[str]:
        """What is said besides the verdict."""
        search, benchmark, proof = self.search, self.tuning.benchmark, outcome.proof
        winner = None if isinstance(proof, NoWinner) else proof.winner
        disturbed = proof.advice if isinstance(proof, NoWinner) else _noise_of(proof, outcome)
        if search.interrupted:
            yield f"interrupted after {search.tally.evaluations}: the same command goes on"
        if not isinstance(proof, NoWinner) and proof.passed_over:
            yield proof.passed_over
        yield from (*self.dropped, *fallen, *_search_notes(search), *disturbed, *self.tuning.advice(winner))
        if report.verdict is Verdict.TUNED and winner is not None:
            yield from _to_be_named(benchmark, self.settings, winner)
        yield from (*self.unread, *self.baseline.unchecked, *_unchecked(benchmark))
        yield from self.tuning.pool.remarks(benchmark)

    def _begun(self) -> Earlier:
        """Make the search of what the journal says that it began with; returns what the journal holds."""
        earlier = self.journal.begin(self.identity, self.seeds, self.lessons)
        self.lessons = earlier.lessons
        benchmark = self.tuning.benchmark
        metrics = [objective.metric for objective in benchmark.objectives]
        given = Brief(benchmark.space, self.tuning.seed, len(metrics), self.brief.budget.evaluations, earlier.seeds,
                      benchmark.spec.engine_options, self.lessons, metrics)  # fmt: skip
        self.search, self.given = Search(self.brief, make(self.engine, given)), given
        return earlier

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what ends a search or its proof into a failure that names the benchmark."""
        nodeid = self.tuning.benchmark.nodeid
        try:
            yield
        except (NotInjected, NothingJudged) as error:
            self.journal.clear()
            raise TuneFailed(f"{nodeid}: {error}; nothing was written") from error
        except (Unprovable, EvaluationFailed) as error:
            raise TuneFailed(f"{nodeid}: {error}") from error


@contextmanager
def under_way(
    benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress, budget: Budget
) -> Iterator[UnderWay]:
    """Check the baseline, and take up the search of one benchmark, whose journal is locked until this is left.

    Raises:
        MarkerError: the compiler does not take an option of the marker's space, or there is no such engine for it.
        TuneFailed: the baseline does not build, does not run here, or is not correct.
        StoreError: another process searches it, or the journal cannot be used.
    """
    benchmark.try_options()
    tell_noise(benchmark, progress)
    engine = choose(chosen(settings.engine, benchmark.spec.engine, settings.ini_engine), benchmark.space)
    baseline = check_baseline(benchmark, pool)
    given = chosen(settings.seed, benchmark.spec.seed, None)
    seed, coins = given or 0, seed_of_coins(given)
    tuning = Tuning(benchmark, store, pool, progress, seed, coins, baseline.stands_for, baseline.drew)
    for said in of_short_calls(pool, benchmark):
        progress.say(said)
    incumbent, unread = find_incumbent(benchmark, store)
    seeds, dropped = starting_points(benchmark, settings.start_from, incumbent)
    taught = taught_by(store, benchmark, engine)
    trackers = Trackers([make_tracker(text) for text in settings.trackers], progress.say)
    with open_journal(settings.rootdir, benchmark.nodeid, benchmark.builder.target) as journal:
        brief = SearchBrief(
            benchmark, Scorer(pool, benchmark, Random(seed)), journal, budget, settings.jobs, progress, trackers,
            baseline.stands_for, incumbent.artifact.withdrawn if incumbent else (),
        )  # fmt: skip
        identity = identity_of(benchmark, baseline.built, engine, seed, settings)
        metrics = [objective.metric for objective in benchmark.objectives]
        trackers.begin(benchmark.name, benchmark.builder.target, metrics, identity)
        yield UnderWay(
            tuning, settings, baseline, incumbent, journal, identity, seeds, taught.lessons, brief,
            engine, dropped, (*unread, *taught.passed_over),
        )  # fmt: skip


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


def _noise_of(proof: Proof, outcome: Outcome) -> Iterator[str]:
    """What disturbed a proof, where it kept the run from what it was asked for: few controls, gains that hold."""
    if outcome.undecided or any(map(why_hard_to_hold, proof.claims)):
        yield from (f"this machine is noisy for these claims: {said}" for said in proof.advice)


def _unchecked(benchmark: TunedBenchmark) -> tuple[str, ...]:
    """What the search could not check or measure on this machine."""
    native, absent = benchmark.native, benchmark.absent
    return (
        *((f"correctness was not checked beyond the build: {native}",) if native is not None else ()),
        *((f"energy was left out: {absent}",) if absent is not None else ()),
    )


def _to_be_named(benchmark: TunedBenchmark, settings: Settings, winner: ControlsFile) -> tuple[str, ...]:
    """The line of settings without which the verbs that do not see the test refuse the winner."""
    known = option_list(benchmark.builder.compiler.name, benchmark.builder.compiler.command)
    named = named_options(settings.options, settings.ini_file)
    if known is None or not (foreign := known.foreign(options_of(winner.knobs), named)):
        return ()
    line = named.line_for(*foreign)
    return (f"acf flags, acf export and acf check do not see the test's space: add to {named.where}: {line}",)


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


def tune(benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store what was proven.

    Raises:
        MarkerError: the compiler does not take an option of the marker's space.
        TuneFailed: the baseline does not build, does not run here, or is not correct; or the search measured nothing,
            or evidence was lost. Nothing is written then.
        StoreError: the store could not be written.
    """
    budget = chosen(settings.budget, benchmark.spec.budget, settings.ini_budget)
    if budget.proof_only:
        return _prove_alone(benchmark, settings, store, pool, progress)
    with under_way(
        benchmark, settings=settings, store=store, pool=pool, progress=progress, budget=budget
    ) as tuning_under_way:
        tuning_under_way.advance()
        return tuning_under_way.close()


def _prove_alone(
    benchmark: TunedBenchmark, settings: Settings, store: Store, pool: Pool, progress: Progress
) -> ItemReport:
    """``--tune-budget=0``: no search."""
    tell_noise(benchmark, progress)
    baseline = check_baseline(benchmark, pool)
    given = chosen(settings.seed, benchmark.spec.seed, None)
    seed, coins = given or 0, seed_of_coins(given)
    tuning = Tuning(benchmark, store, pool, progress, seed, coins, baseline.stands_for, baseline.drew)
    incumbent, _ = find_incumbent(benchmark, store)
    report = prove_committed(tuning, incumbent)
    return replace(report, notes=(*report.notes, *baseline.unchecked, *pool.remarks(benchmark)))
