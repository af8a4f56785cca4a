"""Decides between the winner, the incumbent and the baseline once a proof is done, and writes what was decided."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from pytest_compileiq.artifact import Artifact, CompilerTable, FingerprintTable, is_same_code, stored_code
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.blast_radius import recorded_functions, remedy, why_unfit
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import CONTROL_CLASSES, ControlsFile, Knobs, Licence
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import Progress
from pytest_compileiq.proof import advice
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.prove import Meanwhile, NoWinner, Proof, prove
from pytest_compileiq.report.artifact import MOST_OPTIONS, class_facts, kept_notes
from pytest_compileiq.report.claims import report_on, stress_notes
from pytest_compileiq.rules.replay_power import why_hard_to_hold
from pytest_compileiq.rules.stopping import NEIGHBOUR
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.store.store import Store, Written
from pytest_compileiq.toolchains.option_classes import classes_of, has_to_keep_bits, licences_or_unknown
from pytest_compileiq.tuning.artifact import (
    MOST_FRONT_POINTS,
    SearchResult,
    make_artifact,
    provenance_of,
    signed_by,
)
from pytest_compileiq.tuning.baseline import Incumbent, expect_owner, is_healthy, was_withdrawn
from pytest_compileiq.tuning.stress import LEAST_S, Stressing, Wrong, repeat_advice, with_stress
from pytest_compileiq.workers.pool import EvaluationFailed, Pool, asked_again


@dataclass(frozen=True)
class Tuning:
    """One benchmark being tuned, what it is tuned with, and the entry functions that its test stands for.

    Attributes:
        drew: whether the body reads ``acf.rng``.
        seed: of the search.
        coins: the seed of the proofs.
    """

    benchmark: TunedBenchmark
    store: Store
    pool: Pool
    progress: Progress
    seed: int
    coins: int
    stands_for: frozenset[str] = frozenset()
    drew: bool = False

    @cached_property
    def licences(self) -> tuple[Licence, ...]:
        """What the baseline and the sources let a compiler change under any controls: compiling tells, for seconds."""
        return licences_or_unknown(self.benchmark.builder)

    def promises_bits(self, controls: ControlsFile) -> bool:
        """Whether a kernel with ``controls`` has to give the baseline's bits."""
        return has_to_keep_bits(self.benchmark.builder, controls, self.licences)

    def width(self, knobs: Knobs) -> int:
        """How far ``knobs`` reach: the rank of their widest class, lowest for knobs of the test's own."""
        compiler = self.benchmark.builder.compiler
        own = classes_of(compiler.name, compiler.command, "options", knobs).own
        return CONTROL_CLASSES.index(own[-1]) if own else 0

    def prove(self, finalists: Sequence[ControlsFile], meanwhile: Meanwhile = lambda first: None) -> Proof | NoWinner:
        """Prove the best of ``finalists`` better than the baseline; ``meanwhile`` as ``proof.prove.prove`` takes it.

        Raises:
            Unprovable: the baseline failed, or others disturb every measurement.
            NoWorker: a worker process did not get ready.
        """
        return self._prove(finalists, None, self.coins, meanwhile)

    def duel(self, winner: ControlsFile, standing: ControlsFile) -> Proof | NoWinner:
        """Prove ``winner`` better than the committed controls; raises as ``prove``."""
        return self._prove([winner], standing, self.coins + 1, lambda first: None)

    def stressing(self, limit_s: float = LEAST_S) -> Stressing:
        """The draws of this benchmark's finalists; ``limit_s`` as ``Stressing`` takes it."""
        return Stressing(
            self.benchmark, self.pool, self.progress.say, self.drew, self.seed, self.promises_bits, limit_s
        )

    def write(self, artifact: Artifact, *, controls: Sequence[bytes], samples: Sequence[SampleRow]) -> Written:
        """Store ``artifact`` as this test's own.

        Raises:
            TuneFailed: another test's artifact came there meanwhile.
            StoreError: the store could not be written.
        """
        expect_owner(self.benchmark, self.store)
        return self.store.write(self.benchmark.name, artifact, controls=controls, samples=samples)

    def report(
        self, verdict: Verdict, message: str, artifact: Artifact | None, wrote: Sequence[str] = ()
    ) -> ItemReport:
        """What became of the benchmark, with the claims of ``artifact``."""
        benchmark = self.benchmark
        report = report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, artifact)
        drawn = stress_notes(artifact.claims) if artifact else ()
        kept = kept_notes(artifact) if artifact is not None and wrote else ()
        hard = self._hard_to_hold(artifact) if artifact is not None and wrote else ()
        return replace(report, wrote=tuple(wrote), notes=(*report.notes, *drawn, *kept, *hard))

    def _hard_to_hold(self, artifact: Artifact) -> Iterator[str]:
        """What is said of gains that replays on this device may not hold."""
        for claim in artifact.claims:
            is_here = claim.test is not None and claim.device == self.benchmark.device(claim.objective).name
            if is_here and (told := why_hard_to_hold(claim)):
                yield told

    def advice(self, controls: ControlsFile | None) -> tuple[str, ...]:
        """What to say of the measurement besides its verdict."""
        return (*advice.of_the_body(self.benchmark), *advice.of_the_call(self.pool, self.benchmark, controls))

    def _prove(
        self, finalists: Sequence[ControlsFile], against: ControlsFile | None, seed: int, meanwhile: Meanwhile
    ) -> Proof | NoWinner:
        say = self.progress.say
        return prove(self.pool, self.benchmark, finalists, against=against, seed=seed, say=say, meanwhile=meanwhile)


def settle(tuning: Tuning, incumbent: Incumbent | None, proof: Proof | NoWinner, result: SearchResult) -> ItemReport:
    """Decide between the winner, the incumbent and the baseline, and write what was decided.

    Raises:
        StoreError: the store could not be written.
    """
    benchmark = tuning.benchmark
    if incumbent is not None and incumbent.controls is not None and is_healthy(benchmark, incumbent):
        if isinstance(proof, NoWinner):
            return tuning.report(Verdict.KEPT, f"the committed controls stay: {proof.reason}", incumbent.artifact)
        if proof.winner.key == incumbent.controls.key:
            return _store_claims(tuning, incumbent.artifact, proof, result)
        if refusal := _refuse(tuning, proof.winner, incumbent.controls, incumbent.artifact, result.made_of):
            return tuning.report(Verdict.KEPT, refusal, incumbent.artifact)
    attribution = None
    if not isinstance(proof, NoWinner):
        attribution = result.attribute(proof)
        result = result.with_winner(proof.winner)
    withdrawn = incumbent.artifact.withdrawn if incumbent else ()
    licences = () if isinstance(proof, NoWinner) else tuning.licences
    before = incumbent.artifact.code if incumbent else {}
    artifact = make_artifact(benchmark, proof, result, withdrawn, licences, attribution, before)
    files = [scored.controls.data for scored in result.front[:MOST_FRONT_POINTS]]
    if isinstance(proof, NoWinner):
        written = tuning.write(artifact, controls=files, samples=())
        return tuning.report(Verdict.BASELINE, proof.reason, written.artifact, _paths(benchmark, written))
    files.append(proof.winner.data)
    written = tuning.write(artifact, controls=files, samples=proof.rows)
    report = tuning.report(Verdict.TUNED, proof.reason, written.artifact, _paths(benchmark, written))
    facts = (f"{label}: {text}" for label, text in class_facts(artifact, MOST_OPTIONS) if artifact.classes)
    return replace(report, notes=(*facts, *report.notes))


def prove_committed(tuning: Tuning, incumbent: Incumbent | None) -> ItemReport:
    """``--tune-budget=0``: prove what is committed on this device, write its claim and the refreshed fingerprint.

    Raises:
        TuneFailed: there is nothing to prove, it is not correct here, or it is not proven.
        StoreError: the store could not be written.
    """
    benchmark = tuning.benchmark
    if incumbent is None or incumbent.controls is None:
        raise TuneFailed(
            f"{benchmark.nodeid}: --tune-budget=0 proves committed controls, and "
            f"{tuning.store.metadata_path(benchmark.name, benchmark.builder.target)} holds none: run pytest --tune"
        )
    if was_withdrawn(incumbent.artifact):
        raise TuneFailed(
            f"{benchmark.nodeid}: the controls were withdrawn ({incumbent.artifact.reason}): run pytest --tune"
        )
    if unfit := why_unfit(benchmark, benchmark.builds.get(incumbent.controls), tuning.stands_for):
        kind, reason = unfit
        is_void = kind == NEIGHBOUR
        said = f"{reason}: {remedy(benchmark, tuning.stands_for)}" if is_void else f"cannot be compared: {reason}"
        raise TuneFailed(f"{benchmark.nodeid}: the committed controls {said}")
    _check_alone(tuning, incumbent.controls)
    stressed = tuning.stressing().hold(incumbent.controls)
    if isinstance(stressed, Wrong):
        raise TuneFailed(
            f"{benchmark.nodeid}: the committed controls are refused, {stressed}"
            f"{repeat_advice(benchmark.nodeid, stressed.seed)}; nothing was written; run pytest --tune"
        )
    try:
        proof = tuning.prove([incumbent.controls])
    except Unprovable as error:
        raise TuneFailed(f"{benchmark.nodeid}: {error}") from error
    if isinstance(proof, NoWinner):
        raise TuneFailed(
            f"{benchmark.nodeid}: the committed controls are not proven here: {proof.told}; "
            "nothing was written; run pytest --tune"
        )
    report = _store_claims(tuning, incumbent.artifact, with_stress(proof, stressed))
    return replace(report, notes=(*report.notes, *tuning.advice(proof.winner)))


def _check_alone(tuning: Tuning, controls: ControlsFile) -> None:
    """Run the body with these controls alone: nested, a kernel that writes nothing passes by the other arm's output."""
    benchmark = tuning.benchmark
    for workload in benchmark.spec.workloads:
        try:
            asked_again(partial(tuning.pool.check, 0, benchmark, controls, workload))
        except EvaluationFailed as failure:
            raise TuneFailed(
                f"{benchmark.nodeid}: the committed controls fail on workload {workload.name!r} "
                f"({failure.kind}): {failure.reason}"
            ) from failure


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
    duel = tuning.duel(winner, standing)
    if isinstance(duel, NoWinner):
        return f"the committed controls stay: the winner was not proven better than they are ({duel.told})"
    return None


def _store_claims(tuning: Tuning, artifact: Artifact, proof: Proof, result: SearchResult | None = None) -> ItemReport:
    """The same controls with this device's claims and the refreshed fingerprint.

    Other devices' claims, and what each control brings, stay while the machine code is what was measured there.
    """
    benchmark = tuning.benchmark
    mine = {claim.device for claim in proof.claims}
    others = tuple(claim for claim in artifact.claims if claim.device not in mine)
    code = stored_code(benchmark.builds.get(None), benchmark.builds.get(proof.winner), artifact.code)
    is_same = is_same_code(code, artifact.code)
    kept = others if is_same else ()
    fingerprint = benchmark.fingerprint_with(proof.winner)
    attribution = artifact.attribution if is_same else None
    if result is not None and (attribution is None or result.reduction is not None):
        attribution = result.attribute(proof) or attribution
    fresh = artifact.model_copy(
        update={
            "benchmark": benchmark.nodeid,
            "outcome": "tuned",
            "reason": None,
            "functions": recorded_functions(benchmark, tuning.stands_for),
            **signed_by(benchmark, proof.winner, tuning.licences),
            "claims": kept + proof.claims,
            "fingerprint": FingerprintTable.of(fingerprint),
            "compiler": CompilerTable.of(benchmark.builder.compiler),
            "code": code,
            "reduction": (result and result.reduced(attribution)) or artifact.reduction,
            "attribution": attribution,
            "provenance": provenance_of(benchmark, fingerprint, proof.winner),
        }
    )
    written = tuning.write(fresh, controls=[proof.winner.data], samples=proof.rows)
    message = "the committed controls were proven again"
    report = tuning.report(Verdict.PROVEN, message, written.artifact, _paths(benchmark, written))
    dropped = sorted({claim.device for claim in others} - {claim.device for claim in kept})
    what = "machine code" if fresh.compiler.compiles else "packages, sources or defaults"
    notes = tuple(f"the claim of {device} was of other {what} and is dropped: prove it there" for device in dropped)
    return replace(report, notes=(*report.notes, *notes))


def _paths(benchmark: TunedBenchmark, written: Written) -> list[str]:
    return [os.path.relpath(path, benchmark.rootdir) for path in written.paths]
