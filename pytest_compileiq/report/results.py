"""What claims say in words. The leading one is what was gained; what is worse is called worse.

Ratios are worded by ``rules.words``: never below 1, with a word. Exact metrics are shown as they were and as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_compileiq.artifact import Artifact, Claim, FrontPoint
from pytest_compileiq.model import Direction
from pytest_compileiq.outcome import ItemReport, Result, Verdict
from pytest_compileiq.rules.claims import direction_of, in_order, standing, words_of
from pytest_compileiq.rules.words import interval_text, ratio_text, words_for

NOW = "measured now"


def report_on(
    nodeid: str, name: str, target: str, verdict: Verdict, message: str, artifact: Artifact | None
) -> ItemReport:
    """A report that shows the artifact's claims."""
    item = ItemReport(nodeid, name, target, verdict, message)
    return item.with_results(results_of(artifact.claims)) if artifact else item


def results_of(claims: Iterable[Claim], measured: Sequence[Claim] = ()) -> tuple[Result, ...]:
    """The claims as results: what was gained leads, then what is worse, then the rest.

    Args:
        claims: as committed.
        measured: of these, what was measured in this run, with the numbers of now; one of them leads, or an exact one.
    """
    replaced = {(one.device, one.workload, one.objective) for one in measured}
    recorded = [one for one in claims if (one.device, one.workload, one.objective) not in replaced]
    exact = [one for one in recorded if one.kind == "exact"]
    elsewhere = [one for one in recorded if one.kind != "exact"]
    first = in_order([*measured, *exact]) if measured else in_order(recorded)
    rest = in_order(elsewhere) if measured else ()
    return tuple(_result(one, NOW if one in measured else "") for one in (*first, *rest))


def claim_text(claim: Claim) -> str:
    """A claim's result in a few words, the metric first."""
    return _result(claim).text()


def ratio_of(claim: Claim) -> str:
    """A measured claim's estimate in words, where its interval shows a difference."""
    if standing(claim) == "level":
        return "no clear difference"
    return ratio_text(claim.speedup or 0.0, words_of(claim))


def estimate_texts(point: FrontPoint, better: Mapping[str, Direction]) -> dict[str, str]:
    """What the search estimated of each metric of a point of the front, as a gain or a loss in words.

    Args:
        better: which way each metric is; where that is not on record, the bare ratio is said.
    """
    return {name: _estimate(name, ratio, better.get(name)) for name, ratio in point.metrics.items()}


def gain_of(ratio: float, direction: Direction) -> float:
    """A metric's ratio to the baseline's as a gain: above 1 is better."""
    return 1 / ratio if direction == "minimize" and ratio else ratio


def _estimate(metric: str, ratio: float, direction: Direction | None) -> str:
    if direction is None:
        return f"{metric} {ratio:.4g} of the baseline's"
    if ratio == 1:
        return f"{metric} unchanged"
    gain = gain_of(ratio, direction)
    return f"{'worse: ' if gain < 1 else ''}{metric} {ratio_text(gain, words_for(metric, direction))}"


def evidence_text(claim: Claim) -> str:
    """The statistics of a measured claim in a few words; empty for an exact one."""
    if claim.test is None:
        return ""
    return f"p = {claim.p_value:.1g}, d = {claim.cohens_d:.1f}, {claim.test.processes} processes"


def brief_text(results: Sequence[Result]) -> str:
    """All objectives in a line: the first result of each, and all that is worse; the rest is counted."""
    first = {one.objective: one for one in reversed(results)}
    shown = [one for one in results if one.standing == "worse" or one is first[one.objective]]
    more = [f"and {len(results) - len(shown)} more"] if len(shown) < len(results) else []
    return "; ".join([*(located(one, results) for one in shown), *more])


def headline(results: Sequence[Result], *, interval: bool = True) -> str:
    """The leading result; of a measured gain the lower bound is said first, since that much is surely there."""
    if not results:
        return ""
    lead = results[0]
    if lead.standing != "gained" or lead.speedup is None or lead.speedup_low is None or lead.speedup_high is None:
        return located(lead, results)
    if lead.speedup_low < 1:  # a gain above its floor by the gate's one-sided bound
        return located(lead, results)
    least = ratio_text(lead.speedup_low, words_for(lead.objective, lead.direction))
    limits = f" ({lead.speedup:.3f}x, 95 % interval {lead.speedup_low:.3f} to {lead.speedup_high:.3f})"
    return f"{lead.objective}{_where(lead, results)} at least {least}{limits if interval else ''}"


def located(result: Result, among: Sequence[Result]) -> str:
    """A result's text, with its workload and device where there are several.

    What is on record only is called so beside what was measured in this run.
    """
    on_record = NOW in {one.evidence for one in among} and result.speedup is not None and result.evidence != NOW
    return f"{'recorded, ' if on_record else ''}{result.text(_where(result, among))}"


def _where(result: Result, among: Sequence[Result]) -> str:
    """Of which workload and device, where the measured results have several; an exact metric is of the build."""
    if result.speedup is None:
        return ""
    measured = [one for one in among if one.speedup is not None]
    workload = f" on {result.workload}" if len({one.workload for one in measured}) > 1 else ""
    device = f" on {result.device}" if len({one.device for one in measured}) > 1 else ""
    return workload + device


def _result(claim: Claim, evidence: str = "") -> Result:
    return Result(
        claim.device, claim.workload, claim.objective, direction_of(claim), standing(claim), _words(claim),
        evidence or evidence_text(claim), claim.speedup, claim.speedup_low, claim.speedup_high,
    )  # fmt: skip


def _words(claim: Claim) -> str:
    if claim.kind == "exact":
        unchanged = ", unchanged" if standing(claim) == "level" else ""
        return f"{claim.baseline_value} → {claim.tuned_value}{unchanged}"
    interval = interval_text(claim.speedup_low or 0.0, claim.speedup_high or 0.0, words_of(claim))
    return f"{ratio_of(claim)}, {interval}"
