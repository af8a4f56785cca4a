"""``pytest --tune`` for one benchmark: baseline → search → proof → store."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from pytest_compileiq.artifact import Artifact, StoredCompiler, StoredFingerprint
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.marker import METRICS
from pytest_compileiq.config import Settings
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import TIMED_OBJECTIVES, BuildResult, Candidate, ControlsFile
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.proof import advice
from pytest_compileiq.proof.prove import Proof, Unprovable, prove
from pytest_compileiq.report.results import report_on
from pytest_compileiq.rules.judged import unread_text
from pytest_compileiq.search.finalists import choose_finalists, pareto_front
from pytest_compileiq.search.journal import Journal, open_journal
from pytest_compileiq.search.loop import CannotResume, NothingJudged, NotInjected, Search
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers, make_tracker
from pytest_compileiq.store.store import Store
from pytest_compileiq.tally import Progress
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.tuning.incumbent import Incumbent, find_incumbent, is_healthy, starting_points, was_withdrawn
from pytest_compileiq.tuning.reproduce import NotReproducible, check_reproducible
from pytest_compileiq.tuning.result import (
    MOST_FRONT_POINTS,
    Found,
    make_artifact,
    provenance_of,
    search_record,
    stored_code,
)
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

_NO_SPEED = "its speed cannot be measured on this machine"


class TuneFailed(Exception):
    """The benchmark cannot be tuned: its baseline does not build, is not correct, or cannot run here."""


def tune(benchmark: TunedBenchmark, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store what was proven.

    Raises:
        TuneFailed: the baseline does not build, does not run here, or is not correct; or the search measured nothing,
            or evidence was lost. Nothing is written then.
        StoreError: the store could not be written.
    """
    seed = next(seed for seed in (settings.seed, benchmark.spec.seed, 0) if seed is not None)
    budget = settings.budget or benchmark.spec.budget or settings.ini_budget
    baseline, used, unchecked = _baseline(benchmark, pool)
    incumbent, note = find_incumbent(benchmark, store)
    if budget.proof_only:
        report = _prove_committed(benchmark, store, pool, incumbent, seed=seed, progress=progress)
        return replace(report, notes=(*report.notes, *unchecked))
    seeds, dropped = starting_points(benchmark, settings.start_from, incumbent)
    name = _engine_name(benchmark, settings)
    scorer = Scorer(pool, benchmark, Random(seed))
    trackers = Trackers([make_tracker(text) for text in settings.trackers], progress.say)
    with open_journal(settings.rootdir, benchmark.nodeid, benchmark.builder.target) as journal:

        def make_search(tried_first: Sequence[Candidate]) -> Search:
            brief = Brief(benchmark.space, seed, len(benchmark.objectives), budget.evaluations, tried_first,
                          benchmark.spec.engine_options)  # fmt: skip
            withdrawn = incumbent.artifact.withdrawn if incumbent else ()
            return Search(
                benchmark,
                make(name, brief),
                scorer,
                journal,
                budget,
                settings.jobs,
                progress,
                used,
                trackers,
                withdrawn,
            )

        try:
            identity = _identity(benchmark, baseline, name, seed, settings.start_from)
            trackers.begin(
                benchmark.name, benchmark.builder.target, [one.metric for one in benchmark.objectives], identity
            )
            search = _search(make_search, journal, identity, seeds, baseline, fresh=settings.fresh)
            finalists = choose_finalists(search.scored.values(), scorer, search.tally, progress)
            front = pareto_front(search.scored.values())
            proof = _proof(benchmark, pool, finalists, seed=seed, progress=progress)
            if not finalists and front:
                proof = Proof(None, (), (), _trade_offs(benchmark))
            if proof.winner is None and (reason := search.why_unjudged(at_the_end=True)):
                if search.interrupted:
                    raise KeyboardInterrupt  # there is nothing to settle yet, and the same command goes on
                raise NothingJudged(reason)
        except (NotInjected, NothingJudged) as error:
            journal.clear()
            raise TuneFailed(f"{benchmark.nodeid}: {error}; nothing was written") from error
        except (Unprovable, EvaluationFailed) as error:
            raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
        if proof.lost:
            raise TuneFailed(
                f"{benchmark.nodeid}: the best candidates could not be judged, so nothing was written: {proof.reason}; "
                "the search is kept: run the same command when the device is at rest"
            )
        found = Found(search_record(benchmark, search.tally, name, seed), front)
        report = _settle(benchmark, store, pool, incumbent, proof, found, seed=seed, progress=progress)
        trackers.end(report.verdict, report.message)
        if not search.interrupted:
            journal.clear()
    early = (f"interrupted after {search.tally.evaluations}: the same command goes on",) if search.interrupted else ()
    searched = (*_search_notes(search), *proof.advice)
    notes = (*report.notes, *early, *note, *dropped, *searched, *unchecked, *_unchecked(benchmark))
    notes += _advice(benchmark, pool, proof.winner)
    return replace(report, notes=notes, interrupted=search.interrupted)


def _search(
    make_search: Callable[[Sequence[Candidate]], Search],
    journal: Journal,
    identity: Mapping[str, str],
    seeds: Sequence[Candidate],
    baseline: BuildResult,
    *,
    fresh: bool,
) -> Search:
    """Run the search, from where an earlier run was killed unless something it depends on has changed."""
    if fresh:
        journal.clear()
    earlier = journal.begin(identity, seeds)
    search = make_search(earlier.seeds)
    if earlier.changed:
        search.progress.say(f"an earlier search cannot go on, since its {earlier.changed} changed: starting anew")
    if kept := sum(len(batch.done) for batch in earlier.batches):
        search.progress.say(f"resuming: {kept} evaluations of an earlier run are kept; --tune-fresh starts anew")
    try:
        search.run(baseline, earlier.batches)
    except CannotResume:
        search.progress.say("the engine does not go on from the earlier run: starting anew")
        journal.clear()
        search = make_search(journal.begin(identity, seeds).seeds)
        search.run(baseline, ())
    return search


def _identity(
    benchmark: TunedBenchmark, baseline: BuildResult, engine: str, seed: int, start_from: Path | None
) -> dict[str, str]:
    """All that a search depends on, by the name that its change is told with."""
    fingerprint, compiler = benchmark.fingerprint, benchmark.builder.compiler
    return {
        "benchmark": fingerprint.benchmark,
        "command": fingerprint.command,
        "compiler": f"{compiler.name} {compiler.version} {compiler.build}",
        "baseline's machine code": baseline.digest,
        "space": benchmark.space.digest,
        "engine": f"{engine} {dict(benchmark.spec.engine_options)}",
        "seed": str(seed),
        "--tune-from": str(start_from),
    }


def _baseline(benchmark: TunedBenchmark, pool: Pool) -> tuple[BuildResult, frozenset[str], tuple[str, ...]]:
    """Build the baseline twice and run it nested in itself on every workload.

    Also the entry functions that this used, and what of the build could not be checked.
    """
    if benchmark.needs_device and benchmark.builder.native is not None:
        recorded = [one.metric for one in benchmark.timed_objectives if one.measured not in TIMED_OBJECTIVES]
        what = f"nothing can record {recorded[0]!r} ({METRICS})" if recorded else _NO_SPEED
        raise TuneFailed(f"{benchmark.nodeid}: {benchmark.builder.native}, so {what}")
    try:
        built = benchmark.builds.get(None)
        unchecked = check_reproducible(benchmark, built)
    except BuildError as error:
        raise TuneFailed(f"{benchmark.nodeid}: the baseline does not build: {error}") from error
    except NotReproducible as error:
        raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
    if not benchmark.objectives:
        raise TuneFailed(f"{benchmark.nodeid}: {benchmark.absent}, and the test has no other objective")
    missing = [one.metric for one in benchmark.exact_objectives if one.metric not in built.metrics]
    if missing:
        held = ", ".join(sorted(built.metrics))
        raise TuneFailed(f"{benchmark.nodeid}: this build has no {missing[0]!r}: it has {held}")
    used: frozenset[str] = frozenset()
    try:
        for workload in benchmark.spec.workloads:
            if workload.weight == 0 or not benchmark.timed_objectives:
                touched = pool.check(0, benchmark, None, workload)
            else:
                _, touched = pool.block(
                    0, benchmark, {"baseline": None, "tuned": None}, workload, BlockPlan("baseline", ("ABBA",), 1)
                )
            used |= touched.used
    except EvaluationFailed as failure:
        raise TuneFailed(
            f"{benchmark.nodeid}: the baseline is not usable on workload {workload.name!r} "
            f"({failure.kind}): {failure.reason}"
        ) from failure
    return built, used, unchecked


def _engine_name(benchmark: TunedBenchmark, settings: Settings) -> str:
    named = (settings.engine, benchmark.spec.engine if benchmark.spec.engine != "auto" else None, settings.ini_engine)
    return choose(next(name for name in named if name), benchmark.space)


def _proof(
    benchmark: TunedBenchmark, pool: Pool, finalists: list[ControlsFile], *, seed: int, progress: Progress
) -> Proof:
    if not finalists:
        return Proof(None, (), (), "no valid candidate was better than the baseline")
    return prove(pool, benchmark, finalists, against=None, seed=seed, say=progress.say)


def _trade_offs(benchmark: TunedBenchmark) -> str:
    return (
        "what gains on one objective loses on another more than "
        f"max_regression={benchmark.spec.thresholds.max_regression:g} allows: acf show {benchmark.name} lists the front"
    )


def _settle(
    benchmark: TunedBenchmark,
    store: Store,
    pool: Pool,
    incumbent: Incumbent | None,
    proof: Proof,
    found: Found,
    *,
    seed: int,
    progress: Progress,
) -> ItemReport:
    """Decide between the winner, the incumbent and the baseline, and write what was decided."""
    standing = incumbent.controls if incumbent and is_healthy(benchmark, incumbent) else None
    if proof.winner is None and standing is not None:
        return _report(
            benchmark,
            Verdict.KEPT,
            f"the committed controls stay: {proof.reason}",
            incumbent.artifact if incumbent else None,
        )
    if proof.winner is not None and standing is not None and incumbent is not None:
        if proof.winner.key == standing.key:
            return _store_claims(benchmark, store, incumbent.artifact, proof)
        if refusal := _refuse(
            benchmark, pool, proof.winner, standing, incumbent.artifact, seed=seed, progress=progress
        ):
            return _report(benchmark, Verdict.KEPT, refusal, incumbent.artifact)
    artifact = make_artifact(benchmark, proof, found, incumbent.artifact.withdrawn if incumbent else ())
    files = [one.controls for one in found.front[:MOST_FRONT_POINTS]] + ([proof.winner] if proof.winner else [])
    paths = store.write(benchmark.name, artifact, controls=[one.data for one in files], samples=proof.rows)
    stored = store.read(benchmark.name, benchmark.builder.target)
    verdict = Verdict.TUNED if proof.winner else Verdict.BASELINE
    report = _report(benchmark, verdict, proof.reason, stored)
    return replace(report, wrote=tuple(_relative(path, benchmark) for path in paths))


def _refuse(
    benchmark: TunedBenchmark,
    pool: Pool,
    winner: ControlsFile,
    standing: ControlsFile,
    artifact: Artifact,
    *,
    seed: int,
    progress: Progress,
) -> str | None:
    """Why the winner may not replace a healthy incumbent, or None."""
    here = sorted({benchmark.device(objective.metric).name for objective in benchmark.timed_objectives})
    if others := sorted({claim.device for claim in artifact.claims if claim.kind != "exact"} - set(here)):
        return f"refused: better on {', '.join(here)}, unmeasured on {', '.join(others)}, which holds a claim"
    if benchmark.timed_objectives:
        progress.say("head to head with the committed controls")
    duel = prove(pool, benchmark, [winner], against=standing, seed=seed + 1, say=progress.say)
    return (
        None
        if duel.winner
        else f"the committed controls stay: the winner was not proven better than they are ({duel.told})"
    )


def _prove_committed(
    benchmark: TunedBenchmark, store: Store, pool: Pool, incumbent: Incumbent | None, *, seed: int, progress: Progress
) -> ItemReport:
    """``--tune-budget=0``: prove what is committed on this device, write its claim and the refreshed fingerprint."""
    if incumbent is None or incumbent.controls is None:
        raise TuneFailed(
            f"{benchmark.nodeid}: --tune-budget=0 proves committed controls, and "
            f"{store.metadata_path(benchmark.name, benchmark.builder.target)} holds none: run pytest --tune"
        )
    if was_withdrawn(incumbent.artifact):
        raise TuneFailed(
            f"{benchmark.nodeid}: the controls were withdrawn ({incumbent.artifact.reason}): run pytest --tune"
        )
    for workload in benchmark.spec.workloads:
        try:
            pool.check(0, benchmark, incumbent.controls, workload)
        except EvaluationFailed as failure:
            raise TuneFailed(
                f"{benchmark.nodeid}: the committed controls fail on workload {workload.name!r} "
                f"({failure.kind}): {failure.reason}"
            ) from failure
    try:
        proof = _proof(benchmark, pool, [incumbent.controls], seed=seed, progress=progress)
    except Unprovable as error:
        raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
    if proof.winner is None:
        raise TuneFailed(
            f"{benchmark.nodeid}: the committed controls are not proven here: {proof.told}; "
            "nothing was written; run pytest --tune"
        )
    report = _store_claims(benchmark, store, incumbent.artifact, proof)
    return replace(report, notes=(*report.notes, *_advice(benchmark, pool, proof.winner)))


def _advice(benchmark: TunedBenchmark, pool: Pool, controls: ControlsFile | None) -> tuple[str, ...]:
    return (*advice.of_the_body(benchmark), *advice.of_the_call(pool, benchmark, controls))


def _store_claims(benchmark: TunedBenchmark, store: Store, artifact: Artifact, proof: Proof) -> ItemReport:
    """The same controls with this device's claims and the refreshed fingerprint.

    Other devices' claims stay while the machine code is what was measured there.
    """
    if proof.winner is None:
        raise ValueError("only a proven winner has claims to store")
    mine = {claim.device for claim in proof.claims}
    others = tuple(claim for claim in artifact.claims if claim.device not in mine)
    code = stored_code(benchmark.builds.get(None), benchmark.builds.get(proof.winner))
    kept = others if code == artifact.code else ()
    fresh = artifact.model_copy(
        update={
            "outcome": "tuned",
            "reason": None,
            "claims": kept + proof.claims,
            "fingerprint": StoredFingerprint.of(benchmark.fingerprint),
            "compiler": StoredCompiler.of(benchmark.builder.compiler),
            "code": code,
            "provenance": provenance_of(benchmark, proof.winner),
        }
    )
    paths = store.write(benchmark.name, fresh, controls=[proof.winner.data], samples=proof.rows)
    report = _report(
        benchmark,
        Verdict.PROVEN,
        "the committed controls were proven again",
        store.read(benchmark.name, benchmark.builder.target),
    )
    dropped = sorted({claim.device for claim in others} - {claim.device for claim in kept})
    notes = tuple(f"the claim of {one} was of other machine code and is dropped: prove it there" for one in dropped)
    return replace(report, notes=notes, wrote=tuple(_relative(path, benchmark) for path in paths))


def _unchecked(benchmark: TunedBenchmark) -> tuple[str, ...]:
    """What the search could not check or measure on this machine."""
    native, absent = benchmark.builder.native, benchmark.absent
    return (
        *((f"correctness was not checked beyond the build: {native}",) if native is not None else ()),
        *((f"energy was left out: {absent}",) if absent is not None else ()),
    )


def _search_notes(search: Search) -> tuple[str, ...]:
    tally = search.tally
    spent = f"{tally.evaluations} evaluations in {tally.seconds:.0f} s, {tally.duplicates} duplicates by machine code"
    invalid = [f"{count} invalid ({kind}): {tally.first_reason[kind]}" for kind, count in sorted(tally.invalid.items())]
    return (spent, *invalid, *((unread_text(search.unread),) if search.unread else ()))


def _report(benchmark: TunedBenchmark, verdict: Verdict, message: str, artifact: Artifact | None) -> ItemReport:
    return report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, artifact)


def _relative(path: object, benchmark: TunedBenchmark) -> str:
    return os.path.relpath(str(path), benchmark.rootdir)
