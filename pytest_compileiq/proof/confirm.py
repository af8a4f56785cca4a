"""A proof's second sample: whether it confirms the gain of the first, and whether fewer controls do the same.

A state of the machine that favours one arm is common to the processes of one sample, and the interval of a sample that
was chosen for its gain is too high. So the first sample proves, and the second, taken later and once, confirms; its
interval is the one that is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim, FirstSample
from pytest_compileiq.model import Objective, Workload
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.claims import Finalist, Judged, Look, NoWinner, Proof, claim_of, score_loss
from pytest_compileiq.reduction import Loss
from pytest_compileiq.rules.claims import standing
from pytest_compileiq.rules.comparison import Analysis
from pytest_compileiq.rules.evidence import all_positive, gather
from pytest_compileiq.rules.gate import CONFIRM_LEVEL, LOOKS, Decision, confirm_gain, judge_non_inferior, why_lost
from pytest_compileiq.rules.reduction import LEVEL, is_within, losses_beside
from pytest_compileiq.rules.stats import paired_interval
from pytest_compileiq.rules.words import gain_text, limits_text

UNPROVEN = "were not proven themselves"


def compare_sizes(
    benchmark: TunedBenchmark, full: Finalist, smaller: Finalist, budgets: Mapping[str, float], *, is_proven: bool
) -> tuple[tuple[Loss, ...], str]:
    """What ``smaller`` loses, by samples of both in the same processes, and why ``full`` is to be stored all the same.

    That is empty where the smaller one is proven, and surely loses no more than ``budgets``: timed metric → the most.
    """
    if smaller.out:
        return (), "failed in the proof"
    unproven = "" if is_proven else UNPROVEN
    if full.out:  # it failed, and there is nothing to compare with
        return (), unproven
    compared = [
        _loss(full, smaller, objective, workload, budgets)
        for objective in benchmark.timed_objectives
        for workload in benchmark.timed_workloads
    ]
    losses, within = tuple(loss for _, loss in compared if loss is not None), [verdict for verdict, _ in compared]
    if False in within:
        return losses, "lost more than the budget allows"
    return losses, unproven if all(within) else "may have lost more than the budget allows"


def _loss(
    full: Finalist, smaller: Finalist, objective: Objective, workload: Workload, budgets: Mapping[str, float]
) -> tuple[bool | None, Loss | None]:
    """Whether the loss is within the budget, and the loss; None where that is open."""
    named = {"objective": objective.metric, "workload": workload.name}
    both = [finalist.steady_values(objective, workload) for finalist in (full, smaller)]
    if both[0] is not None and both[1] is not None:
        loss = score_loss(objective.direction, both[0][1], both[1][1])
        return loss <= 0, Loss(**named, loss=loss, low=loss, high=loss)
    of_full, of_smaller = (finalist.of(objective.metric, workload) for finalist in (full, smaller))
    losses = losses_beside(of_full, of_smaller, objective.direction)
    if losses.size < 2:
        return None, None
    interval = paired_interval(losses, 0.025)
    within = is_within(losses, budgets[objective.metric], LEVEL)
    return within, Loss(**named, loss=interval.estimate, low=interval.low, high=interval.high)


def confirmed(benchmark: TunedBenchmark, first: Proof, second: Finalist, gap_s: float) -> tuple[Claim, ...] | NoWinner:
    """The claims of ``first`` with the numbers of its ``second`` sample.

    A gain that is not confirmed becomes "not worse", where the first sample proves that and the second does not
    contradict it.
    """
    claims: list[Claim] = []
    missed = ""
    for claim in first.claims:
        objective = next(each for each in benchmark.objectives if each.metric == claim.objective)
        workload = next(each for each in benchmark.timed_workloads if each.name == claim.workload)
        if claim.kind == "exact":
            values = claim.baseline_value, claim.tuned_value
            if not claim.of_the_build and second.steady_values(objective, workload) != values:
                return NoWinner(
                    f"{claim.objective} was the same in all processes of the first sample, and varies in the second"
                )
            claims.append(claim)
            continue
        judged = _judged(claim, objective, workload, second)
        if isinstance(judged, NoWinner):
            return judged
        gain = confirm_gain(judged.evidence, benchmark.spec.thresholds)
        if claim.kind == "gain" and gain.verdict is Verdict.PROVEN:
            claims.append(_stored(benchmark, judged, gain, claim, gap_s))
            continue
        lesser: Claim | None = claim
        if claim.kind == "gain":
            missed = missed or _missed(claim, gain)
            lesser = _not_worse(benchmark, claim, first, objective, workload)
        not_worse = judge_non_inferior(judged.evidence, benchmark.spec.thresholds, level=CONFIRM_LEVEL)
        if lesser is None or not_worse.verdict is Verdict.REFUTED:
            return NoWinner(missed or f"a second sample contradicts that it is not worse: {not_worse.reason}")
        claims.append(_stored(benchmark, judged, not_worse, lesser, gap_s))
    is_gain = (standing(claim) == "gained" if claim.kind == "exact" else claim.kind == "gain" for claim in claims)
    return tuple(claims) if any(is_gain) else NoWinner(missed)


def beside_first(claims: Sequence[Claim], first: Sequence[Claim], gap_s: float) -> tuple[Claim, ...]:
    """Claims that the gate proved on the second sample alone, with the first sample of what they were reduced from."""
    shown = {(claim.workload, claim.objective): claim for claim in first if claim.test is not None}
    return tuple(
        _with_first(claim, before, None, gap_s)
        if claim.test is not None and (before := shown.get((claim.workload, claim.objective))) is not None
        else claim
        for claim in claims
    )


def _judged(claim: Claim, objective: Objective, workload: Workload, second: Finalist) -> Judged | NoWinner:
    rows = second.of(objective.metric, workload)
    if claim.scale is None and not all_positive(rows):
        return NoWinner(f"{claim.objective} was positive at first and no longer is", lost=True)
    evidence = gather(rows, objective.direction, Analysis(claim.scale))
    reason = why_lost(evidence)
    return NoWinner(reason, lost=True) if reason else Judged(second, objective, workload, evidence)


def _not_worse(
    benchmark: TunedBenchmark, claim: Claim, first: Proof, objective: Objective, workload: Workload
) -> Claim | None:
    """A gain as "not worse" instead, by its first sample; None where that does not prove it."""
    assert claim.test is not None and first.finalist is not None
    evidence = gather(first.finalist.of(objective.metric, workload), objective.direction, Analysis(claim.scale))
    thresholds = benchmark.spec.thresholds
    level = thresholds.alpha / len(LOOKS) / claim.test.finalists
    decision = judge_non_inferior(evidence, thresholds, level=level)
    if decision.verdict is not Verdict.PROVEN:
        return None
    look = Look(claim.test.look, claim.test.seed, claim.test.finalists)
    return claim_of(benchmark, Judged(first.finalist, objective, workload, evidence), decision, "non-inferior", look)


def _stored(benchmark: TunedBenchmark, judged: Judged, decision: Decision, first: Claim, gap_s: float) -> Claim:
    assert first.test is not None and first.kind != "exact"
    look = Look(first.test.look, first.test.seed, first.test.finalists)
    second = claim_of(benchmark, judged, decision, first.kind, look)
    second = second.model_copy(update={"p_value": first.p_value, "cohens_d": first.cohens_d, "test": first.test})
    return _with_first(second, first, judged.evidence.processes, gap_s)


def _with_first(claim: Claim, first: Claim, second: int | None, gap_s: float) -> Claim:
    assert claim.test is not None and first.speedup is not None
    assert first.speedup_low is not None and first.speedup_high is not None
    shown = FirstSample(speedup=first.speedup, speedup_low=first.speedup_low, speedup_high=first.speedup_high)
    test = claim.test.model_copy(update={"first": shown, "second": second, "gap_s": gap_s})
    return claim.model_copy(update={"test": test})


def _missed(claim: Claim, gain: Decision) -> str:
    assert claim.speedup is not None and claim.speedup_low is not None and claim.speedup_high is not None
    first = gain_text(claim.speedup, claim.scale)
    limits = limits_text(claim.speedup_low, claim.speedup_high, claim.scale)
    return f"a second sample did not confirm the gain of the first, {first} ({limits}): {gain.reason}"
