"""``pytest --tune`` for one benchmark: baseline → search → proof → store."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from random import Random

from pytest_compileiq.config import Settings
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import (
    Artifact,
    BuildResult,
    Candidate,
    Claim,
    ControlsFile,
    SearchRecord,
)
from pytest_compileiq.packs import read_candidates
from pytest_compileiq.pool import EvaluationFailed, Pool
from pytest_compileiq.prove import Proof, Unprovable, prove
from pytest_compileiq.record import make_artifact, provenance_of, search_record, stored_code
from pytest_compileiq.report.model import ItemReport
from pytest_compileiq.report.progress import Progress, Tally
from pytest_compileiq.search import NotInjected, Search
from pytest_compileiq.store import Store
from pytest_compileiq.subject import Subject
from pytest_compileiq.timing.sampler import BlockPlan


class TuneFailed(Exception):
    """The benchmark cannot be tuned: its baseline does not build, is not correct, or cannot run here."""


@dataclass(frozen=True)
class Incumbent:
    """The artifact that stands in the store, and its controls when they still build here."""

    artifact: Artifact
    controls: ControlsFile | None


def tune(subject: Subject, *, settings: Settings, store: Store, pool: Pool, progress: Progress) -> ItemReport:
    """Search for better controls, prove the winner on fresh samples, and store what was proven.

    Raises:
        TuneFailed: the baseline does not build, does not run here, or is not correct.
        StoreError: the store could not be written.
    """
    seed = next(seed for seed in (settings.seed, subject.spec.seed, 0) if seed is not None)
    budget = settings.budget or subject.spec.budget or settings.ini_budget
    baseline, used = _baseline(subject, pool)
    incumbent, note = _incumbent(subject, store)
    if budget.proof_only:
        return _prove_committed(subject, store, pool, incumbent, seed=seed, progress=progress)
    seeds, dropped = _seeds(subject, settings, incumbent)
    name = _engine_name(subject, settings)
    brief = Brief(subject.space, seed, budget=budget.evaluations, seeds=seeds, options=subject.spec.engine_options)
    search = Search(pool, subject, make(name, brief), budget, settings.jobs, Random(seed), progress, used)
    try:
        finalists = search.run(baseline)
        proof = _proof(subject, pool, finalists, seed=seed, progress=progress)
    except (Unprovable, NotInjected, EvaluationFailed) as error:
        raise TuneFailed(f"{subject.nodeid}: {error}") from error
    record = search_record(subject, search.tally, name, seed)
    report = _settle(subject, store, pool, incumbent, proof, record, seed=seed, progress=progress)
    return replace(report, notes=(*report.notes, *note, *dropped, *_search_notes(search.tally), *_unchecked(subject)))


def _baseline(subject: Subject, pool: Pool) -> tuple[BuildResult, frozenset[str]]:
    """Build the baseline twice, run it nested in itself on every workload; also the entry functions that this used."""
    if subject.resolved.native is not None and subject.objective.needs_device:
        raise TuneFailed(
            f"{subject.nodeid}: {subject.resolved.native}, so its speed cannot be measured on this machine"
        )
    try:
        built = subject.builds.get(None)
        again = subject.resolved.build(
            None, subject.builds.directory / "baseline-again", timeout_s=subject.spec.timeout_s
        )
    except BuildError as error:
        raise TuneFailed(f"{subject.nodeid}: the baseline does not build: {error}") from error
    if built.digest != again.digest:
        raise TuneFailed(
            f"{subject.nodeid}: building the baseline twice in two directories gives different machine code, "
            "so no artifact of it could be replayed: remove __DATE__, __TIME__ and absolute paths from the sources"
        )
    metric = subject.objective.metric
    if subject.objective.exact and metric not in built.metrics:
        raise TuneFailed(f"{subject.nodeid}: this build has no {metric!r}: it has {', '.join(sorted(built.metrics))}")
    used: frozenset[str] = frozenset()
    try:
        for workload in subject.spec.workloads:
            if workload.weight == 0 or subject.objective.exact:
                used |= pool.check(0, subject, None, workload)
            else:
                used |= pool.block(
                    0, subject, {"baseline": None, "tuned": None}, workload, BlockPlan("baseline", ("ABBA",), 1)
                )[1]
    except EvaluationFailed as failure:
        raise TuneFailed(
            f"{subject.nodeid}: the baseline is not usable on workload {workload.name!r} "
            f"({failure.kind}): {failure.reason}"
        ) from failure
    return built, used


def _incumbent(subject: Subject, store: Store) -> tuple[Incumbent | None, tuple[str, ...]]:
    """What is stored for this target; an unreadable artifact is replaced, and said so."""
    if subject.resolved.target not in store.targets(subject.name):
        return None, ()
    try:
        artifact = store.read(subject.name, subject.resolved.target)
    except StoreError as error:
        return None, (f"the stored artifact was not readable and is replaced: {error}",)
    try:
        controls = _committed_controls(subject, store, artifact)
    except (StoreError, BuildError) as error:
        return Incumbent(artifact, None), (f"the stored controls no longer build here: {error}",)
    return Incumbent(artifact, controls), ()


def _committed_controls(subject: Subject, store: Store, artifact: Artifact) -> ControlsFile | None:
    if artifact.controls is None:
        return None
    data = store.read_controls(subject.name, artifact)
    controls = subject.resolved.parse(artifact.controls.kind, data, artifact.controls.knobs)
    if reason := subject.why_outside(controls):
        raise StoreError(
            f"{store.metadata_path(subject.name, artifact.target)}: its controls are outside the test's space: {reason}"
        )
    subject.builds.get(controls)
    return controls


def _engine_name(subject: Subject, settings: Settings) -> str:
    named = (settings.engine, subject.spec.engine if subject.spec.engine != "auto" else None, settings.ini_engine)
    return choose(next(name for name in named if name), subject.space)


def _seeds(
    subject: Subject, settings: Settings, incumbent: Incumbent | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """What is tried first: the committed controls, then what ``--tune-from`` names; and what of it was left out."""
    seeds = []
    if incumbent and incumbent.controls:
        blob = incumbent.controls.data if incumbent.controls.kind == "blob" else None
        seeds.append(Candidate(incumbent.controls.knobs, blob, origin="committed"))
    if settings.start_from is not None:
        seeds += read_candidates(settings.start_from)
    outside = {seed.origin: reason for seed in seeds if (reason := subject.why_outside(seed))}
    notes = [f"{origin} was left out: {reason}" for origin, reason in list(outside.items())[:3]]
    return [seed for seed in seeds if seed.origin not in outside], tuple(notes)


def _proof(
    subject: Subject,
    pool: Pool,
    finalists: list[ControlsFile],
    *,
    seed: int,
    progress: Progress,
    against: ControlsFile | None = None,
) -> Proof:
    if not finalists:
        return Proof(None, (), (), "no valid candidate was better than the baseline")
    if subject.objective.exact:
        return _exact_proof(subject, finalists[0])
    return prove(pool, subject, finalists, against=against, seed=seed, say=progress.say)


def _exact_proof(subject: Subject, controls: ControlsFile) -> Proof:
    """An exact metric needs no samples: the two integers are the claim."""
    metric = subject.objective.metric
    baseline, tuned = subject.builds.get(None).metrics[metric], subject.builds.get(controls).metrics[metric]
    better = tuned < baseline if subject.objective.direction == "minimize" else tuned > baseline
    if not better:
        return Proof(None, (), (), f"{metric} stays at {baseline}")
    claims = tuple(
        Claim(
            device=subject.resolved.architecture,
            workload=workload.name,
            objective=metric,
            kind="exact",
            baseline_value=baseline,
            tuned_value=tuned,
        )
        for workload in subject.timed_workloads
    )
    return Proof(controls, claims, (), f"{metric} {baseline} → {tuned}")


def _settle(
    subject: Subject,
    store: Store,
    pool: Pool,
    incumbent: Incumbent | None,
    proof: Proof,
    search: SearchRecord,
    *,
    seed: int,
    progress: Progress,
) -> ItemReport:
    """Decide between the winner, the incumbent and the baseline, and write what was decided."""
    standing = incumbent.controls if incumbent and _healthy(subject, incumbent) else None
    if proof.winner is None and standing is not None:
        return _report(
            subject, "KEPT", f"the committed controls stay: {proof.reason}", incumbent.artifact if incumbent else None
        )
    if proof.winner is not None and standing is not None and incumbent is not None:
        if proof.winner.key == standing.key:
            return _store_claims(subject, store, incumbent.artifact, proof)
        if refusal := _refuse(subject, pool, proof.winner, standing, incumbent.artifact, seed=seed, progress=progress):
            return _report(subject, "KEPT", refusal, incumbent.artifact)
    artifact = make_artifact(subject, proof, search)
    paths = store.write(
        subject.name, artifact, controls=proof.winner.data if proof.winner else None, samples=proof.rows
    )
    stored = store.read(subject.name, subject.resolved.target)
    verdict = "TUNED" if proof.winner else "BASELINE"
    report = _report(subject, verdict, proof.reason, stored)
    return replace(report, wrote=tuple(_relative(path, subject) for path in paths))


def _healthy(subject: Subject, incumbent: Incumbent) -> bool:
    """Whether the incumbent still is what was proven: same inputs, same machine code."""
    artifact = incumbent.artifact
    if (
        incumbent.controls is None
        or artifact.outcome != "tuned"
        or artifact.fingerprint.benchmark != subject.fingerprint.benchmark
    ):
        return False
    return stored_code(subject.builds.get(None), subject.builds.get(incumbent.controls)) == artifact.code


def _refuse(
    subject: Subject,
    pool: Pool,
    winner: ControlsFile,
    standing: ControlsFile,
    artifact: Artifact,
    *,
    seed: int,
    progress: Progress,
) -> str | None:
    """Why the winner may not replace a healthy incumbent, or None."""
    others = sorted({claim.device for claim in artifact.claims if claim.kind != "exact"} - {subject.device.name})
    if others:
        return f"refused: better on {subject.device.name}, unmeasured on {', '.join(others)}, which holds a claim"
    if subject.objective.exact:
        metric = subject.objective.metric
        old, new = subject.builds.get(standing).metrics[metric], subject.builds.get(winner).metrics[metric]
        better = new < old if subject.objective.direction == "minimize" else new > old
        return None if better else f"the committed controls stay: {metric} {old} is not beaten by {new}"
    progress.say("head to head with the committed controls")
    duel = prove(pool, subject, [winner], against=standing, seed=seed + 1, say=progress.say)
    return (
        None
        if duel.winner
        else f"the committed controls stay: the winner was not proven better than they are ({duel.reason})"
    )


def _prove_committed(
    subject: Subject, store: Store, pool: Pool, incumbent: Incumbent | None, *, seed: int, progress: Progress
) -> ItemReport:
    """``--tune-budget=0``: prove what is committed on this device, write its claim and the refreshed fingerprint."""
    if incumbent is None or incumbent.controls is None:
        raise TuneFailed(
            f"{subject.nodeid}: --tune-budget=0 proves committed controls, and "
            f"{store.metadata_path(subject.name, subject.resolved.target)} holds none: run pytest --tune"
        )
    for workload in subject.checked_workloads:
        try:
            pool.check(0, subject, incumbent.controls, workload)
        except EvaluationFailed as failure:
            raise TuneFailed(
                f"{subject.nodeid}: the committed controls fail on workload {workload.name!r} "
                f"({failure.kind}): {failure.reason}"
            ) from failure
    try:
        proof = _proof(subject, pool, [incumbent.controls], seed=seed, progress=progress)
    except Unprovable as error:
        raise TuneFailed(f"{subject.nodeid}: {error}") from error
    if proof.winner is None:
        raise TuneFailed(
            f"{subject.nodeid}: the committed controls are not proven on {subject.device.name}: {proof.reason}; "
            "nothing was written; run pytest --tune"
        )
    return _store_claims(subject, store, incumbent.artifact, proof)


def _store_claims(subject: Subject, store: Store, artifact: Artifact, proof: Proof) -> ItemReport:
    """The same controls with this device's claims and the refreshed fingerprint; other devices' claims stay."""
    if proof.winner is None:
        raise ValueError("only a proven winner has claims to store")
    mine = {claim.device for claim in proof.claims}
    kept = tuple(claim for claim in artifact.claims if claim.device not in mine)
    fresh = artifact.model_copy(
        update={
            "claims": kept + proof.claims,
            "fingerprint": subject.fingerprint,
            "compiler": subject.resolved.compiler,
            "code": stored_code(subject.builds.get(None), subject.builds.get(proof.winner)),
            "provenance": provenance_of(subject, proof.winner),
        }
    )
    paths = store.write(subject.name, fresh, controls=proof.winner.data, samples=proof.rows)
    report = _report(
        subject, "PROVEN", "the committed controls were proven again", store.read(subject.name, subject.resolved.target)
    )
    return replace(report, wrote=tuple(_relative(path, subject) for path in paths))


def _unchecked(subject: Subject) -> tuple[str, ...]:
    """What a search of an exact metric could not check on this machine."""
    reason = subject.resolved.native
    return () if reason is None else (f"correctness was not checked beyond the build: {reason}",)


def _search_notes(tally: Tally) -> tuple[str, ...]:
    spent = f"{tally.evaluations} evaluations in {tally.seconds:.0f} s, {tally.duplicates} duplicates by machine code"
    invalid = [f"{count} invalid ({kind}): {tally.first_reason[kind]}" for kind, count in sorted(tally.invalid.items())]
    return (spent, *invalid)


def _report(subject: Subject, verdict: str, message: str, artifact: Artifact | None) -> ItemReport:
    return ItemReport.of(subject.nodeid, subject.name, subject.resolved.target, verdict, message, artifact)


def _relative(path: object, subject: Subject) -> str:
    return os.path.relpath(str(path), subject.rootdir)
