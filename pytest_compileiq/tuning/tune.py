"""``pytest --tune`` for one benchmark: baseline → search → proof → smallest winner → what it is made of → store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import recorded_functions
from pytest_compileiq.config import Budget, Settings, chosen
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.proof.prove import NoWinner, Unprovable
from pytest_compileiq.rules.judged import unread_text
from pytest_compileiq.search.finalists import pareto_front
from pytest_compileiq.search.journal import Journal, open_journal
from pytest_compileiq.search.loop import CannotResume, NothingJudged, NotInjected, Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers, make_tracker
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.project_settings import named_options
from pytest_compileiq.tally import Progress
from pytest_compileiq.toolchains.committed_options import option_list
from pytest_compileiq.toolchains.option_list import options_of
from pytest_compileiq.tuning.attribution import attribution_of
from pytest_compileiq.tuning.baseline import Baseline, check_baseline
from pytest_compileiq.tuning.finals import bench_of, dropped_out, prove_best
from pytest_compileiq.tuning.incumbent import Incumbent, find_incumbent, starting_points
from pytest_compileiq.tuning.result import SearchResult, search_record
from pytest_compileiq.tuning.settle import Tuning, prove_committed, settle
from pytest_compileiq.workers.pool import EvaluationFailed, Pool


def tune(benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store what was proven.

    Raises:
        MarkerError: the compiler does not take an option of the marker's space.
        TuneFailed: the baseline does not build, does not run here, or is not correct; or the search measured nothing,
            or evidence was lost. Nothing is written then.
        StoreError: the store could not be written.
    """
    budget = chosen(settings.budget, benchmark.spec.budget, settings.ini_budget)
    seed = chosen(settings.seed, benchmark.spec.seed, 0)
    if not budget.proof_only:
        benchmark.try_options()
    baseline = check_baseline(benchmark, pool)
    tuning = Tuning(benchmark, store, pool, progress, seed, baseline.stands_for, drew=baseline.drew)
    incumbent, note = find_incumbent(benchmark, store)
    if budget.proof_only:
        report = prove_committed(tuning, incumbent)
        return replace(report, notes=(*report.notes, *baseline.unchecked, *pool.remarks(benchmark)))
    report = _search_and_settle(tuning, settings, budget, baseline, incumbent)
    unchecked = *baseline.unchecked, *_unchecked(benchmark), *pool.remarks(benchmark)
    return replace(report, notes=(*report.notes, *note, *unchecked))


def _search_and_settle(
    tuning: Tuning, settings: Settings, budget: Budget, baseline: Baseline, incumbent: Incumbent | None
) -> ItemReport:
    benchmark, progress = tuning.benchmark, tuning.progress
    seeds, dropped = starting_points(benchmark, settings.start_from, incumbent)
    engine = choose(chosen(settings.engine, benchmark.spec.engine, settings.ini_engine), benchmark.space)
    trackers = Trackers([make_tracker(text) for text in settings.trackers], progress.say)
    with open_journal(settings.rootdir, benchmark.nodeid, benchmark.builder.target) as journal:
        scorer = Scorer(tuning.pool, benchmark, Random(tuning.seed))
        brief = SearchBrief(
            benchmark, scorer, journal, budget, settings.jobs, progress, trackers, baseline.stands_for,
            incumbent.artifact.withdrawn if incumbent else (),
        )  # fmt: skip

        def make_search(tried_first: Sequence[Candidate]) -> Search:
            given = Brief(benchmark.space, tuning.seed, len(benchmark.objectives), budget.evaluations, tried_first,
                          benchmark.spec.engine_options)  # fmt: skip
            return Search(brief, make(engine, given))

        try:
            identity = _identity(benchmark, baseline.built, engine, tuning.seed, settings.start_from)
            metrics = [objective.metric for objective in benchmark.objectives]
            trackers.begin(benchmark.name, benchmark.builder.target, metrics, identity)
            search = _search(make_search, journal, identity, seeds, baseline.built, brief, fresh=settings.fresh)
            front = pareto_front(search.scored.values())
            bench = bench_of(tuning, settings, search)
            outcome, sound = prove_best(tuning, settings, search, bench, front, incumbent)
        except (NotInjected, NothingJudged) as error:
            journal.clear()
            raise TuneFailed(f"{benchmark.nodeid}: {error}; nothing was written") from error
        except (Unprovable, EvaluationFailed) as error:
            raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
        record = search_record(benchmark, search.tally, engine, tuning.seed, scorer.shift)
        functions = recorded_functions(benchmark, baseline.stands_for)
        proof = outcome.proof
        fallen = list(dropped_out(benchmark, sound, record, incumbent))
        if incumbent is not None and incumbent.controls is not None and sound.is_wrong(incumbent.controls):
            incumbent = replace(incumbent, controls=None)
        is_small = settings.reduce and not search.interrupted
        attribute = partial(attribution_of, bench) if is_small else SearchResult.attribute
        result = SearchResult(
            record, front, functions, scorer.shift, outcome.reduction, outcome.made_of, outcome.undecided, attribute
        )
        report = settle(tuning, incumbent, proof, result)
        trackers.end(report.verdict, report.message)
        if not search.interrupted:
            journal.clear()
    early = (f"interrupted after {search.tally.evaluations}: the same command goes on",) if search.interrupted else ()
    winner, disturbed = (None, proof.advice) if isinstance(proof, NoWinner) else (proof.winner, ())
    notes = *report.notes, *early, *dropped, *fallen, *_search_notes(search), *disturbed, *tuning.advice(winner)
    if report.verdict is Verdict.TUNED and winner is not None:
        notes = *notes, *_to_be_named(benchmark, settings, winner)
    return replace(report, notes=notes, interrupted=search.interrupted)


def _search(
    make_search: Callable[[Sequence[Candidate]], Search],
    journal: Journal,
    identity: Mapping[str, str],
    seeds: Sequence[Candidate],
    baseline: BuildResult,
    brief: SearchBrief,
    *,
    fresh: bool,
) -> Search:
    """Run the search, from where an earlier run was killed unless something it depends on has changed."""
    if fresh:
        journal.clear()
    earlier = journal.begin(identity, seeds)
    search = make_search(earlier.seeds)
    if earlier.changed:
        brief.progress.say(f"an earlier search cannot go on, since its {earlier.changed} changed: starting anew")
    if kept := sum(len(batch.done) for batch in earlier.batches):
        brief.progress.say(f"resuming: {kept} evaluations of an earlier run are kept; --tune-fresh starts anew")
    try:
        search.run(baseline, earlier.batches)
    except CannotResume:
        brief.progress.say("the engine does not go on from the earlier run: starting anew")
        journal.clear()
        search = make_search(journal.begin(identity, seeds).seeds)
        search.run(baseline, ())
    return search


def _identity(
    benchmark: TunedBenchmark, baseline: BuildResult, engine: str, seed: int, start_from: Path | None
) -> dict[str, str]:
    """All that a search depends on, by the names that a change of it is reported with."""
    fingerprint, compiler = benchmark.fingerprint, benchmark.builder.compiler
    return {
        "benchmark": fingerprint.benchmark,
        "command": fingerprint.command,
        "compiler": f"{compiler.name} {compiler.version} {compiler.build}",
        "baseline's machine code" if compiler.compiles else "baseline": baseline.digest,
        "space": benchmark.space.digest,
        "engine": f"{engine} {dict(benchmark.spec.engine_options)}",
        "seed": str(seed),
        "--tune-from": str(start_from),
    }


def _unchecked(benchmark: TunedBenchmark) -> tuple[str, ...]:
    """What the search could not check or measure on this machine."""
    native, absent = benchmark.builder.native, benchmark.absent
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
    spent = f"{tally.evaluations} evaluations in {tally.seconds:.0f} s, {tally.duplicates} duplicates{by}"
    invalid = [f"{count} invalid ({kind}): {tally.first_reason[kind]}" for kind, count in sorted(tally.invalid.items())]
    space = search.brief.benchmark.space
    bounded = (f"the space has {space.size_text}",) if space.where is not None else ()
    unread = (unread_text(search.unread, search.read - search.offered),) if search.unread else ()
    return (spent, *bounded, *invalid, *unread)
