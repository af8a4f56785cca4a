"""A committed claim measured again, on the device that is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import Arm, ControlsFile
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Deal, plan_of
from pytest_compileiq.proof.prove import noise_of
from pytest_compileiq.rules.claims import expected_of
from pytest_compileiq.rules.comparison import Analysis
from pytest_compileiq.rules.evidence import all_positive, gather
from pytest_compileiq.rules.gate import LOOKS, Decision, judge_non_inferior, judge_replay, looks_of, undecided
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.workers.pool import Pool, asked_again


def prove_again(pool: Pool, benchmark: TunedBenchmark, controls: ControlsFile, claim: Claim, *, seed: int) -> Decision:
    """Replay one claim: does its gain still stand on this device?

    A claim on several devices holds what each of them showed: one of them is judged by its own gain, and its reason
    says that it is one. Another device of a claimed fleet is judged by what was predicted for such; any other by the
    gain of the claim as a whole, as another specimen of the device of any claim.

    Raises:
        ValueError: the claim is exact.
        EvaluationFailed: an arm failed.
        NoWorker: a worker process did not get ready.
    """
    random = Random(seed)
    workload = next(workload for workload in benchmark.spec.workloads if workload.name == claim.workload)
    expected_of(claim, ())  # raises before anything is measured
    rows: list[SampleRow] = []
    done = 0
    looks = looks_of(pool.devices)
    for processes in looks:
        pool.prepare(range(done, processes), benchmark)
        for number in range(done, processes):
            arms: Mapping[Arm, ControlsFile | None] = {"baseline": None, "tuned": controls}
            plan = plan_of(benchmark, random, Deal(seed, number, pool.devices), claim.conditions)
            block = asked_again(partial(pool.block, number, benchmark, arms, workload, plan))
            rows += block.of(claim.objective)
        done = processes
        if claim.scale is None and not all_positive(rows):
            least = f"{min(row.value for row in rows):g}"
            return undecided(f"{claim.objective} is now {least}, and the claim is a ratio of positive values")
        evidence = gather(rows, benchmark.direction(claim.objective), Analysis(claim.scale))
        expected = expected_of(claim, {row.unit for row in rows})
        decision = (
            judge_replay(evidence, expected, last_look=processes == looks[-1])
            if claim.kind == "gain"
            else judge_non_inferior(
                evidence, benchmark.spec.thresholds, level=benchmark.spec.thresholds.alpha / len(LOOKS)
            )
        )
        if expected.of_device:
            decision = replace(decision, reason=f"{decision.reason}; {expected.of_device}")
        if decision.verdict is not Verdict.INCONCLUSIVE:
            break
    if decision.verdict is Verdict.PROVEN and not decision.note:
        return decision
    noise = noise_of(benchmark, claim.objective, evidence)  # it may be why a gain seems to have decayed or to be gone
    return replace(decision, note="; ".join(filter(None, (decision.note, *noise))))
