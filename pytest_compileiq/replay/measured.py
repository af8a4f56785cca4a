"""What a replay measures: each claim again, whether it holds, and its numbers for the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim
from pytest_compileiq.config import seed_of_coins
from pytest_compileiq.errors import NoWorker
from pytest_compileiq.model import ARMS, ControlsFile, digest_of_code
from pytest_compileiq.outcome import Built, End, Measured, Verdict
from pytest_compileiq.replay.committed import RETUNE, Stop
from pytest_compileiq.report.claims import claim_text
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.rules.fingerprint import changed_environment
from pytest_compileiq.rules.staleness import code_of
from pytest_compileiq.timing.conditions import run_environment
from pytest_compileiq.timing.registry import find_device_or_none
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

if TYPE_CHECKING:
    from pytest_compileiq.rules.gate import Decision


def built_of(benchmark: TunedBenchmark, artifact: Artifact) -> Built:
    """The compiler, and the machine code of both arms, which was found to be the artifact's."""
    compiler = benchmark.builder.compiler
    return Built(f"{compiler.name} {compiler.version}", *(digest_of_code(code_of(artifact, arm)) for arm in ARMS))


def _measured(benchmark: TunedBenchmark, claim: Claim, decision: Decision, seed: int) -> Iterator[Measured]:
    """The numbers of one claim that was measured now; none where they are no ratio, or too few samples were left."""
    if decision.means is None:
        return
    device = find_device_or_none(benchmark.device_kind(claim.objective))
    yield Measured(
        claim.device, claim.workload, claim.objective, direction_of(claim), decision.verdict, *decision.means,
        decision.speedup, decision.speedup_low, decision.speedup_high, device.driver if device else None, seed,
    )  # fmt: skip


def measured_otherwise(benchmark: TunedBenchmark, claim: Claim) -> str:
    """What is another than when ``claim`` was proven: the environment of the run, or the driver; empty if neither."""
    if changed := changed_environment(claim.environment, run_environment()):
        return f"measured in another environment than proven: {changed}"
    drivers = _other_driver(benchmark, claim)
    if drivers is None:
        return ""
    before, now = (driver or "unknown" for driver in drivers)
    return f"proven under driver {before}, measured now under {now}; --tune-budget=0 claims it for this one"


def _other_driver(benchmark: TunedBenchmark, claim: Claim) -> tuple[str | None, str | None] | None:
    device = find_device_or_none(benchmark.device_kind(claim.objective))
    return None if device is None or device.driver == claim.driver else (claim.driver, device.driver)


def measure_again(
    pool: Pool, benchmark: TunedBenchmark, controls: ControlsFile, claim: Claim, given: int | None
) -> tuple[Decision, tuple[Measured, ...]]:
    """Measure ``claim`` again; the gate's decision, and its numbers for the report.

    What refutes it has to do so twice, a minute apart and in other processes: of a hundred claims that are intact, some
    are refuted every few days by a state of the machine. So a job that remembers no other run can still fail in one.

    Args:
        given: the seed of the order in which the arms are measured; None for a fresh one.
    """
    from pytest_compileiq.proof.remeasure import prove_again  # heavy: numpy
    from pytest_compileiq.rules.gate import REFUTE_AGAIN_S

    seed = seed_of_coins(given)
    try:
        decision = prove_again(pool, benchmark, controls, claim, seed=seed)
        if decision.verdict is Verdict.REFUTED:
            pool.close()
            pool.timer.wait_until(pool.timer.now() + REFUTE_AGAIN_S)
            first, seed = decision, seed + 1
            decision = _twice(first, prove_again(pool, benchmark, controls, claim, seed=seed))
    except NoWorker as fault:
        raise Stop(Verdict.NO_WORKER, fault.message, fault.remedy) from fault
    except EvaluationFailed as failure:
        why = f"the {failure.arm or 'measured'} arm failed while it was measured ({failure.kind}): {failure.reason}"
        if failure.arm == "baseline" or failure.kind == "disturbed":
            raise Stop(Verdict.INCONCLUSIVE, why, RETUNE) from failure
        raise Stop(Verdict.REFUTED, why, RETUNE, ends=("wrong",)) from failure
    return decision, tuple(_measured(benchmark, claim, decision, seed))


def _twice(first: Decision, decision: Decision) -> Decision:
    """The second of two decisions, which says what became of a first that refuted."""
    if decision.verdict is Verdict.REFUTED:
        return replace(decision, reason=f"{decision.reason}; measured twice, a minute apart")
    before = f"a measurement a minute before refuted it, and this one does not: {first.reason}"
    return replace(decision, note="; ".join(filter(None, (decision.note, before))))


def expect_proven(benchmark: TunedBenchmark, claim: Claim, decision: Decision) -> None:
    """Have the decision be that ``claim`` holds."""
    if decision.verdict is Verdict.PROVEN:
        return
    claimed = f"workload {claim.workload!r}, claimed {claim_text(claim)}"
    if changed := changed_environment(claim.environment, run_environment()):
        why = f"{claimed} in another environment ({changed}): {decision.reason}"
        remedy = "set it as it was, or prove the controls in this one: pytest --tune --tune-budget=0 {test}"
        raise Stop(Verdict.INCONCLUSIVE, why, remedy)
    quiet = "measure again on a quiet machine, or " if decision.verdict is Verdict.INCONCLUSIVE else ""
    gone: End = "gain" if _other_driver(benchmark, claim) is None else "driver"
    why = f"{claimed}: {'; '.join(filter(None, (decision.reason, decision.note)))}"
    ends = (gone,) if decision.verdict is Verdict.REFUTED else ()
    raise Stop(decision.verdict, why, quiet + "tune anew: pytest --tune {test}", ends=ends)
