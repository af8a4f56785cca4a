"""Claims in words: results, checks, stress. A gain leads; a loss is called worse. Texts are untrusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_compileiq.artifact import Artifact, FrontPoint
from pytest_compileiq.claim import Accuracy, Claim, Farthest, Stress
from pytest_compileiq.machine_code.names import listed, readable
from pytest_compileiq.model import CLOCKED, EXACT_OBJECTIVES, Direction, tail_of
from pytest_compileiq.outcome import ItemReport, Result, Verdict
from pytest_compileiq.rules.blast_radius import recorded_neighbours
from pytest_compileiq.rules.claims import (
    ClaimStep,
    WorseEntry,
    direction_of,
    in_order,
    scope_of,
    standing,
    words_of,
    worse_entries,
)
from pytest_compileiq.rules.conditions import told_of
from pytest_compileiq.rules.stress import by_accuracy, failure_bound
from pytest_compileiq.rules.words import (
    change_text,
    gain_text,
    limits_text,
    number_text,
    ratio_text,
    unit_text,
    words_for,
)
from pytest_compileiq.spelling import MOST_NAMED, first_of, quantity

NOW = "measured now"


def report_on(
    nodeid: str, name: str, target: str, verdict: Verdict, message: str, artifact: Artifact | None
) -> ItemReport:
    """A report that shows the artifact's claims, what has to be known of how they were measured, and its reach."""
    item = ItemReport(nodeid, name, target, verdict, message)
    if artifact is None:
        return item
    beyond, lost = also_changes(artifact, MOST_NAMED), got_worse(artifact, MOST_NAMED)
    reach = (f"also changes: {beyond}" if beyond else "", f"worse: {'; '.join(lost)}" if lost else "")
    notes = (
        *filter(None, reach),
        *notes_of(artifact.claims),
        *outlier_texts(artifact.claims),
        *unchecked(artifact.claims),
    )
    return replace(item, notes=notes).with_results(results_of(artifact.claims))


def also_changes(artifact: Artifact, most: int | None = None) -> str:
    """The functions that the controls change and the test does not stand for, in words; empty where there are none."""
    beyond = listed(recorded_neighbours(artifact), most)
    return f"{beyond}, not exercised by this test" if beyond else ""


def got_worse(artifact: Artifact, most: int | None = None) -> tuple[str, ...]:
    """What entry functions lost on a metric whose claim did not lose, as in ``registers of b: 20 → 30``."""
    return worse_texts(worse_entries(artifact), most)


def worse_texts(entries: Sequence[WorseEntry], most: int | None = None) -> tuple[str, ...]:
    """``entries`` in words, the first ``most`` of them."""
    told = [f"{lost.metric} of {readable(lost.entry)}: {lost.baseline} → {lost.tuned}" for lost in entries]
    return tuple(first_of(told, most))


def notes_of(claims: Sequence[Claim]) -> tuple[str, ...]:
    """What a reader has to know of the conditions under which ``claims`` were measured on a GPU."""
    several = len(claims) > 1
    return tuple(
        f"{claim.workload} on {claim.device}: {sentence}" if several else sentence
        for claim in claims
        for sentence in told_of(claim)
    )


def results_of(claims: Iterable[Claim], measured: Sequence[Claim] = ()) -> tuple[Result, ...]:
    """The claims as results: gains lead, then losses, then the rest.

    Args:
        claims: as committed.
        measured: those of the claims that this run measured, with the new numbers; one of them leads, or an exact one.
    """
    replaced = {(claim.device, claim.workload, claim.objective) for claim in measured}
    recorded = [claim for claim in claims if (claim.device, claim.workload, claim.objective) not in replaced]
    exact = [claim for claim in recorded if claim.kind == "exact"]
    elsewhere = [claim for claim in recorded if claim.kind != "exact"]
    first = in_order([*measured, *exact]) if measured else in_order(recorded)
    rest = in_order(elsewhere) if measured else ()
    return tuple(_result(claim, NOW if claim in measured else "") for claim in (*first, *rest))


def device_texts(claim: Claim) -> tuple[str, ...]:
    """What each of a claim's several devices showed, a line each."""
    words = words_of(claim)
    return tuple(
        f"{unit_text(each.unit)} {gain_text(each.speedup, claim.scale, words)}, "
        f"{limits_text(each.speedup_low, each.speedup_high, claim.scale, words)}, {each.processes} processes"
        + (", an outlier among them" if each.outlier else "")
        for each in claim.devices
    )


def outlier_texts(claims: Sequence[Claim]) -> tuple[str, ...]:
    """The devices whose gain is not of a kind with that of the others, a sentence a claim."""
    return tuple(
        f"{', '.join(strange)}: not of a kind with the other devices on {claim.workload} ({claim.objective})"
        for claim in claims
        if (strange := [text for text, each in zip(device_texts(claim), claim.devices, strict=True) if each.outlier])
    )


def claim_text(claim: Claim) -> str:
    """A claim's result in a few words, the metric first."""
    return _result(claim).text()


def estimate_of(claim: Claim) -> str:
    """A measured claim's estimate in words, or that its interval shows no clear difference."""
    if standing(claim) == "level" and (claim.speedup_low or 0.0) <= 1:
        return "no clear difference"
    return gain_text(claim.speedup or 0.0, claim.scale, words_of(claim))


def values_of(claim: Claim) -> str:
    """Both values of an exact claim."""
    return change_text(claim.baseline_value or 0, claim.tuned_value or 0)


def estimate_texts(point: FrontPoint, better: Mapping[str, Direction]) -> dict[str, str]:
    """The search's estimate of each metric of a front's point, as a gain or a loss in words.

    Args:
        better: each metric's better direction; for a metric without one, the text is the bare ratio.
    """
    ratios = {name: _estimate(name, ratio, better.get(name)) for name, ratio in point.metrics.items()}
    return ratios | {name: _shift(name, share, better.get(name)) for name, share in point.shifts.items()}


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


def _shift(metric: str, share: float, direction: Direction | None) -> str:
    if share == 0:
        return f"{metric} unchanged"
    worse = direction is not None and (share > 0) == (direction == "minimize")
    moved = f"{'higher' if share > 0 else 'lower'} by {abs(share):.3g} of the baseline's magnitude"
    return f"{'worse: ' if worse else ''}{metric} {moved}"


def evidence_text(claim: Claim) -> str:
    """The statistics of a measured claim in a few words; empty for an exact one."""
    if claim.test is None:
        return ""
    return f"p = {claim.p_value:.1g}, d = {claim.cohens_d:.1f}, {claim.test.sampled}{count_text(claim)}"


def brief_text(results: Sequence[Result]) -> str:
    """All objectives in one line: the first result of each, and all losses; the rest are counted."""
    first = {result.objective: result for result in reversed(results)}
    shown = [result for result in results if result.standing == "worse" or result is first[result.objective]]
    more = [f"and {len(results) - len(shown)} more"] if len(shown) < len(results) else []
    return "; ".join([*(located(result, results) for result in shown), *more])


def headline(results: Sequence[Result], *, interval: bool = True) -> str:
    """The leading result; a measured gain begins with its lower bound, since at least that much was gained."""
    if not results:
        return ""
    lead = results[0]
    if lead.standing != "gained" or lead.speedup is None or lead.speedup_low is None or lead.speedup_high is None:
        return located(lead, results)
    if lead.speedup_low < 1:  # a gain above its floor by the gate's one-sided bound
        return located(lead, results)
    least = ratio_text(lead.speedup_low, words_for(lead.objective, lead.direction))
    limits = f" ({lead.speedup:.3f}x, 95 % interval {lead.speedup_low:.3f} to {lead.speedup_high:.3f})"
    scope = f", {lead.scope}" if lead.scope else ""
    return f"{lead.objective}{_where(lead, results)} at least {least}{limits if interval else ''}{scope}"


def located(result: Result, among: Sequence[Result]) -> str:
    """A result's text, with its workload and device if there are several.

    Beside results measured in this run, a result that was only recorded is called so.
    """
    on_record = NOW in {other.evidence for other in among} and result.evidence not in ("", NOW)
    return f"{'recorded, ' if on_record else ''}{result.text(_where(result, among))}"


def _where(result: Result, among: Sequence[Result]) -> str:
    """The workload and device, if the results of bodies have several; a metric of the build belongs to the whole."""
    if _of_the_build(result):
        return ""
    measured = [other for other in among if not _of_the_build(other)]
    workload = f" on {result.workload}" if len({other.workload for other in measured}) > 1 else ""
    device = f" on {result.device}" if len({other.device for other in measured}) > 1 else ""
    return workload + device


def _of_the_build(result: Result) -> bool:
    return tail_of(result.objective)[0] in EXACT_OBJECTIVES


def _result(claim: Claim, evidence: str = "") -> Result:
    ratios = (claim.speedup, claim.speedup_low, claim.speedup_high) if claim.scale is None else (None, None, None)
    return Result(
        claim.device, claim.workload, claim.objective, direction_of(claim), standing(claim), _words(claim),
        evidence or evidence_text(claim), *ratios, scope_of(claim), claim.units,
    )  # fmt: skip


def _words(claim: Claim) -> str:
    if claim.kind == "exact":
        unchanged = ", unchanged" if standing(claim) == "level" else ""
        return f"{values_of(claim)}{unchanged}"
    means = means_of(claim)
    return f"{' → '.join(means)}, {measured_text(claim)}" if means else measured_text(claim)


def measured_text(claim: Claim) -> str:
    """A measured claim's estimate with its interval, and the devices that it speaks for, where they are several."""
    interval = limits_text(claim.speedup_low or 0.0, claim.speedup_high or 0.0, claim.scale, words_of(claim))
    return ", ".join(filter(None, (estimate_of(claim), interval, scope_of(claim))))


def means_of(claim: Claim) -> tuple[str, str] | None:
    """Both arms' means of a claim that is no ratio, since its difference says little without them."""
    if claim.scale is None or claim.baseline is None or claim.tuned is None:
        return None
    return number_text(claim.baseline.mean), number_text(claim.tuned.mean)


_BY = {"outputs": "its outputs were the same", "check": "the test's own check passed"}
UNCHECKED = (
    "the sampled calls were not checked, so a kernel that is wrong in some of them or skips some may pass: acf.measure("
    "…, outputs=[…]) overwrites and looks at what they wrote; a body that times itself, with acf.record, asserts it"
)


def count_text(claim: Claim) -> str:
    """How often the sampled calls were looked at, as in ``, 288 checks``; empty where they were not."""
    return f", {quantity(claim.checks.checks, 'check')}" if claim.checks else ""


def told_of_checks(claim: Claim) -> tuple[str, ...]:
    """What was looked at between the samples of a claim, or that nothing was; empty for claims without timed calls."""
    if claim.checks is not None:
        made = claim.checks
        often = f"{quantity(made.checks, 'time')}, after {quantity(made.slots, 'slot')}"
        return (f"looked at between the samples: {_BY[made.by]} {often}",)
    return (UNCHECKED,) if _is_clocked(claim) else ()


def unchecked(claims: Iterable[Claim]) -> tuple[str, ...]:
    """What to say of claims whose sampled calls nobody looked at, once for all of them."""
    return (UNCHECKED,) if any(_is_clocked(claim) and claim.checks is None for claim in claims) else ()


def lost_checks(steps: Iterable[ClaimStep]) -> Iterator[str]:
    """What was looked at, or drawn, for the older claims and is not for the newer ones; once for all of them."""
    both = [(step.old, step.new) for step in steps if step.old and step.new]
    if any(old.checks and not new.checks for old, new in both):
        yield "the sampled calls were checked before, and are no more"
    usable = [(old.stress.usable if old.stress else 0, new.stress.usable if new.stress else 0) for old, new in both]
    if fewer := next((pair for pair in usable if pair[1] < pair[0]), None):
        yield f"{quantity(fewer[0], 'usable draw')} of acf.rng before, {fewer[1]} now"


def _is_clocked(claim: Claim) -> bool:
    return claim.kind != "exact" and tail_of(claim.objective)[0] in CLOCKED


_MOST_OUTPUTS = 5  # in one rendering
_MOST_EXACT = 2**53


def stress_lines(claims: Iterable[Claim]) -> list[str]:
    """All that the claims record: the draws first, then what is less accurate, then the differences."""
    return _of_each(claims, lambda told: [told.draws, *told.less_accurate, *told.differences])


def stress_notes(claims: Iterable[Claim]) -> list[str]:
    """As ``stress_lines``, of the claims that were drawn for."""
    return [f"stress: {line}" for line in stress_lines(filter(_is_drawn, claims))]


def draws_lines(claims: Iterable[Claim]) -> list[str]:
    """The draws and the differences of the claims that record a stress."""
    recorded = (claim for claim in claims if claim.stress is not None)
    return _of_each(recorded, lambda told: [told.draws, *told.differences])


def less_accurate_lines(claims: Iterable[Claim]) -> list[str]:
    """The outputs in which the tuned arm is surely less accurate than the baseline."""
    return _of_each(filter(_is_drawn, claims), lambda told: told.less_accurate)


class _Told(NamedTuple):
    draws: str
    less_accurate: list[str]
    differences: list[str]


def _told(stress: Stress | None) -> _Told:
    if stress is None:
        return _Told("not stressed", [], [])
    less, others = by_accuracy(stress)
    repeats = ["the test declares repeats=True: the gain may be one of remembered input"] if stress.repeats else []
    return _Told(_draws(stress), [_less_accurate(output) for output in less], [*repeats, *_differences(stress, others)])


def _is_drawn(claim: Claim) -> bool:
    return claim.stress is not None and (claim.stress.draws > 0 or claim.stress.repeats)


def _of_each(claims: Iterable[Claim], lines_of: Callable[[_Told], list[str]]) -> list[str]:
    devices: dict[str, dict[str, None]] = {}
    records: dict[str, Stress | None] = {}
    for claim in claims:
        key = claim.stress.model_dump_json() if claim.stress else ""
        records[key] = claim.stress
        devices.setdefault(key, {})[claim.device] = None
    return [
        f"{', '.join(devices[key])}: {line}" if len(records) > 1 else line
        for key, record in records.items()
        for line in lines_of(_told(record))
    ]


def _draws(stress: Stress) -> str:
    """How many draws there were, and the failure rate that they exclude."""
    if stress.draws == 0:
        return "0 draws: the body does not read acf.rng"
    seeds = f"seeds {stress.seed} to {(stress.seed or 0) + stress.draws - 1}"
    unusable = stress.draws - stress.usable
    if stress.usable == 0:
        return f"{quantity(stress.draws, 'draw')}, {seeds}, none of them usable, so no failure rate is excluded"
    count = f"{stress.usable} of {stress.draws} draws" if unusable else quantity(stress.draws, "draw")
    rate = f"{100 * failure_bound(stress.usable):.0f} %"
    rest = f"; {unusable} unusable" if unusable else ""
    return f"{count}, all clean: a failure rate above {rate} is excluded (95 %); {seeds}{rest}"


def _less_accurate(output: Accuracy) -> str:
    times = f"{output.ratio:.3g} times the baseline's error"
    return f"less accurate: {_output_text(output)} has {times}, and is farther off its reference on {_of(output)}"


def _of(output: Accuracy) -> str:
    return f"{output.worse} of {quantity(output.worse + output.better, 'draw')}"


def _differences(stress: Stress, not_less_accurate: Sequence[Accuracy]) -> Iterator[str]:
    for output in not_less_accurate[:_MOST_OUTPUTS]:
        differs = output.worse + output.better > 0
        apart = f"farther off its reference on {_of(output)}" if differs else "as near to its reference on every draw"
        yield f"not less accurate: {_output_text(output)}, {apart}"
    if stress.largest is not None:
        yield f"largest difference: {_farthest(stress.largest)}"
    elif stress.outputs:
        yield "every compared output has the baseline's bits"
    if stress.spread is not None:
        yield f"the baseline differs from itself: {_farthest(stress.spread)}"


def _output_text(place: Accuracy | Farthest) -> str:
    return f"{place.output!r} on {place.workload}"


def _farthest(place: Farthest) -> str:
    apart = f"{place.ulps:,} ulps, " if place.ulps < _MOST_EXACT else ""
    share = f"{place.relative:.2g} of the largest value" if place.relative < 1e20 else "no number in one of them"
    at = f"{_output_text(place)}, element {place.index}, draw {place.draw}"
    return f"{place.baseline} → {place.other}, {apart}{share} ({at})"
