"""Decides between the winner, the incumbent and the baseline once a proof is done, and writes what was decided."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pytest_compileiq.artifact import Artifact, is_same_code, stored_code
from pytest_compileiq.benchmark.blast_radius import remedy, why_unfit
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.report.artifact import MOST_OPTIONS, class_facts
from pytest_compileiq.rules.stopping import NEIGHBOUR
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.tuning.artifact import keep_wrong, make_artifact, stored_front, told_now
from pytest_compileiq.tuning.attribution import attribution_of
from pytest_compileiq.tuning.baseline import expect_owner, is_healthy
from pytest_compileiq.tuning.context import Found, Tuning
from pytest_compileiq.tuning.stress import Stressing, Wrong, repeat_advice
from pytest_compileiq.tuning.winner import Winner
from pytest_compileiq.workers.messages import CheckTask
from pytest_compileiq.workers.pool import EvaluationFailed, asked_again


def settle(tuning: Tuning, winner: Winner, found: Found) -> ItemReport:
    """Decide between the winner, the incumbent and the baseline, and write what was decided."""
    benchmark, proof, incumbent = tuning.benchmark, winner.proof, tuning.incumbent
    standing = incumbent.controls if incumbent is not None else None
    is_wrong = standing is not None and any(wrong.controls.key == standing.key for wrong in winner.wrong)
    if incumbent and standing and not is_wrong and is_healthy(benchmark, incumbent):
        if isinstance(proof, NoWinner):
            return tuning.report(Verdict.KEPT, f"the committed controls stay: {proof.reason}", incumbent.artifact)
        if proof.winner.key == standing.key:
            return _store_claims(tuning, incumbent.artifact, proof, winner, found)
        if refusal := _refuse(tuning, proof.winner, standing, incumbent.artifact, winner.made_of):
            return tuning.report(Verdict.KEPT, refusal, incumbent.artifact)
    attribution = attribution_of(tuning, found.search, proof) if isinstance(proof, Proof) and found.reduces else None
    artifact = make_artifact(tuning, winner, found, attribution)
    files = [scored.controls.data for scored in stored_front(found, winner)]
    if isinstance(proof, NoWinner):
        stored, paths = _write(tuning, artifact, files)
        return tuning.report(Verdict.BASELINE, proof.reason, stored, paths)
    stored, paths = _write(tuning, artifact, [*files, proof.winner.data], proof.rows)
    report = tuning.report(Verdict.TUNED, proof.reason, stored, paths)
    facts = (f"{label}: {text}" for label, text in class_facts(artifact, MOST_OPTIONS) if artifact.classes)
    return replace(report, notes=(*facts, *report.notes))


def prove_committed(tuning: Tuning) -> ItemReport:
    """``--tune-budget=0``: prove what is committed on this device, write its claim and the refreshed fingerprint."""
    incumbent = tuning.incumbent
    benchmark = tuning.benchmark
    if incumbent is None or incumbent.controls is None:
        raise TuneFailed(
            f"--tune-budget=0 proves committed controls, and "
            f"{tuning.store.metadata_path(benchmark.name, benchmark.builder.target)} holds none: run pytest --tune"
        )
    if incumbent.artifact.outcome == "retired":
        raise TuneFailed(f"the controls were withdrawn ({incumbent.artifact.reason}): run pytest --tune")
    stands_for = tuning.baseline.stands_for
    if unfit := why_unfit(benchmark, benchmark.builds.get(incumbent.controls), stands_for):
        kind, reason = unfit
        said = f"{reason}: {remedy(benchmark, stands_for)}" if kind == NEIGHBOUR else f"cannot be compared: {reason}"
        raise TuneFailed(f"the committed controls {said}")
    for workload in benchmark.spec.workloads:
        try:  # alone: nested, a kernel that writes nothing passes by the other arm's output
            asked_again(partial(tuning.pool.ask, 0, benchmark, CheckTask(workload.name, incumbent.controls)))
        except EvaluationFailed as failure:
            raise TuneFailed(
                f"the committed controls fail on workload {workload.name!r} ({failure.kind}): {failure.reason}"
            ) from failure
    stressed = Stressing(tuning).hold(incumbent.controls)
    if isinstance(stressed, Wrong):
        raise TuneFailed(
            f"the committed controls are refused, {stressed}"
            f"{repeat_advice(benchmark.nodeid, stressed.seed)}; nothing was written; run pytest --tune"
        )
    proof = tuning.comparison().prove_and_confirm([incumbent.controls])
    if isinstance(proof, NoWinner):
        raise TuneFailed(
            f"the committed controls are not proven here: {proof.told}; nothing was written; run pytest --tune"
        )
    report = _store_claims(tuning, incumbent.artifact, proof.with_stress(stressed))
    return replace(report, notes=(*report.notes, *tuning.advice(proof.winner)))


def _refuse(
    tuning: Tuning, winner: ControlsFile, standing: ControlsFile, artifact: Artifact, made_of: str
) -> str | None:
    """Why the winner may not replace a healthy incumbent, or None: it does where it is made of it, and smaller."""
    benchmark = tuning.benchmark
    here = sorted({benchmark.device(objective.metric).name for objective in benchmark.timed_objectives})
    if others := sorted({claim.device for claim in artifact.claims if not claim.of_the_build} - set(here)):
        return f"refused: better on {', '.join(here)}, unmeasured on {', '.join(others)}, which holds a claim"
    if made_of == standing.key:
        return None
    if benchmark.timed_objectives:
        tuning.progress.say("head to head with the committed controls")
    duel = tuning.comparison(standing).prove_and_confirm([winner])
    if isinstance(duel, NoWinner):
        return f"the committed controls stay: the winner was not proven better than they are ({duel.told})"
    return None


def _store_claims(
    tuning: Tuning, artifact: Artifact, proof: Proof, winner: Winner | None = None, found: Found | None = None
) -> ItemReport:
    """The same controls with this device's claims and the refreshed fingerprint.

    Other devices' claims, and what each control brings, stay while the machine code is what was measured there.
    """
    benchmark = tuning.benchmark
    mine = {claim.device for claim in proof.claims}
    others = tuple(claim for claim in artifact.claims if claim.device not in mine)
    code = stored_code(benchmark.builds.get(None), benchmark.builds.get(proof.winner), artifact.code)
    is_same = is_same_code(code, artifact.code)
    kept = others if is_same else ()
    attribution = artifact.attribution if is_same else None
    may_attribute = winner is not None and (attribution is None or winner.reduction is not None)
    if may_attribute and found is not None and found.reduces:
        attribution = attribution_of(tuning, found.search, proof) or attribution
    fresh = artifact.model_copy(
        update={
            **told_now(tuning, proof.winner),
            "outcome": "tuned",
            "reason": None,
            "claims": kept + proof.claims,
            "code": code,
            "reduction": (winner and winner.reduced(attribution)) or artifact.reduction,
            "attribution": attribution,
        }
    )
    stored, paths = _write(tuning, fresh, [proof.winner.data], proof.rows)
    report = tuning.report(Verdict.PROVEN, "the committed controls were proven again", stored, paths)
    dropped = sorted({claim.device for claim in others} - {claim.device for claim in kept})
    what = "machine code" if fresh.compiler.compiles else "packages, sources or defaults"
    notes = tuple(f"the claim of {device} was of other {what} and is dropped: prove it there" for device in dropped)
    return replace(report, notes=(*report.notes, *notes))


def _write(
    tuning: Tuning, artifact: Artifact, controls: Sequence[bytes], samples: Sequence[SampleRow] = ()
) -> tuple[Artifact, list[str]]:
    """Store ``artifact`` as this test's own; the artifact as stored, and the paths that were written."""
    benchmark = tuning.benchmark
    expect_owner(benchmark, tuning.store)
    written = tuning.store.write(benchmark.name, artifact, controls=controls, samples=samples)
    return written.artifact, [os.path.relpath(path, benchmark.rootdir) for path in written.paths]


def refusal_of(tuning: Tuning, wrong: Wrong, found: Found) -> str:
    """Keep a finalist that is wrong on a draw; which one it is, and the command that repeats the draw."""
    is_committed = tuning.incumbent is not None and wrong.controls == tuning.incumbent.controls
    which = "the committed controls" if is_committed else f"the controls {wrong.controls.sha256[:8]}"
    where = keep_wrong(tuning, wrong, found)
    return f"{which} dropped out, {wrong}{repeat_advice(tuning.benchmark.nodeid, wrong.seed, where)}"
