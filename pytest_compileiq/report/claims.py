"""Claims in words: results, checks, stress. A gain leads; a loss is called worse. Texts are untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_compileiq.artifact import Artifact, FrontPoint
from pytest_compileiq.claim import Accuracy, Claim, Farthest, Stress
from pytest_compileiq.machine_code.names import listed, readable
from pytest_compileiq.model import CLOCKED, EXACT_OBJECTIVES, Direction, tail_of
from pytest_compileiq.outcome import ItemReport, Result, Verdict
from pytest_compileiq.rules.claims import (
    ClaimStep,
    WorseEntry,
    direction_of,
    in_order,
    recorded_neighbours,
    scope_of,
    standing,
    told_of,
    words_of,
    worse_entries,
)
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
_BY = {"outputs": "its outputs were the same", "check": "the test's own check passed"}
UNCHECKED = (
    "the sampled calls were not checked, so a kernel that is wrong in some of them or skips some may pass: acf.measure("
    "…, outputs=[…]) overwrites and looks at what they wrote; a body that times itself, with acf.record, asserts it"
)


def report_on(
    nodeid: str, name: str, target: str, verdict: Verdict, message: str, artifact: Artifact | None
) -> ItemReport:
    """A report with the artifact's claims, the conditions of their measurement, and its reach."""
    item = ItemReport(nodeid, name, target, verdict, message)
    if artifact is None:
        return item
    claims = artifact.claims
    beyond, lost = also_changes(artifact, MOST_NAMED), worse_texts(worse_entries(artifact), MOST_NAMED)
    notes = [f"also changes: {beyond}"] if beyond else []
    notes += [f"worse: {'; '.join(lost)}"] if lost else []
    for claim in claims:
        place = f"{claim.workload} on {claim.device}: " if len(claims) > 1 else ""
        notes += (f"{place}{sentence}" for sentence in told_of(claim))
    for claim in claims:
        told = zip(device_texts(claim), claim.devices, strict=True)
        if strange := ", ".join(text for text, each in told if each.outlier):
            notes.append(f"{strange}: not of a kind with the other devices on {claim.workload} ({claim.objective})")
    return replace(item, notes=(*notes, *unchecked(claims))).with_results(results_of(claims))


def also_changes(artifact: Artifact, most: int | None = None) -> str:
    """The functions that the controls change and the test does not exercise, in words; empty without any."""
    beyond = listed(recorded_neighbours(artifact), most)
    return f"{beyond}, not exercised by this test" if beyond else ""


def worse_texts(entries: Sequence[WorseEntry], most: int | None = None) -> tuple[str, ...]:
    """The losses of entry functions in words, as in ``registers of b: 20 → 30``."""
    told = [f"{lost.metric} of {readable(lost.entry)}: {lost.baseline} → {lost.tuned}" for lost in entries]
    return tuple(first_of(told, most))


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────


def results_of(claims: Iterable[Claim], measured: Sequence[Claim] = ()) -> tuple[Result, ...]:
    """The claims as results: gains lead, then losses, then the rest.

    Args:
        claims: as committed.
        measured: those of the claims that this run measured, with the new numbers; one of them leads, or an exact one.
    """
    replaced = {(claim.device, claim.workload, claim.objective) for claim in measured}
    recorded = [claim for claim in claims if (claim.device, claim.workload, claim.objective) not in replaced]
    if not measured:
        return tuple(map(_result, in_order(recorded)))
    first = in_order([*measured, *(claim for claim in recorded if claim.kind == "exact")])
    rest = in_order([claim for claim in recorded if claim.kind != "exact"])
    return tuple(_result(claim, NOW if claim in measured else "") for claim in (*first, *rest))


def _result(claim: Claim, evidence: str = "") -> Result:
    if claim.kind == "exact":
        unchanged = ", unchanged" if standing(claim) == "level" else ""
        words = f"{change_text(claim.baseline_value or 0, claim.tuned_value or 0)}{unchanged}"
    else:
        means = means_of(claim)
        words = f"{' → '.join(means)}, {measured_text(claim)}" if means else measured_text(claim)
    ratios = (claim.speedup, claim.speedup_low, claim.speedup_high) if claim.scale is None else (None, None, None)
    return Result(
        claim.device, claim.workload, claim.objective, direction_of(claim), standing(claim), words,
        evidence or evidence_text(claim), *ratios, scope_of(claim), claim.units,
    )  # fmt: skip


def claim_text(claim: Claim) -> str:
    """A claim's result in a few words, the metric first."""
    return _result(claim).text()


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
    low, speedup, high = lead.speedup_low, lead.speedup, lead.speedup_high
    # A low below 1 is of a gain above its floor by the gate's one-sided bound.
    if lead.standing != "gained" or speedup is None or low is None or high is None or low < 1:
        return located(lead, results)
    least = ratio_text(low, words_for(lead.objective, lead.direction))
    limits = f" ({speedup:.3f}x, 95 % interval {low:.3f} to {high:.3f})" if interval else ""
    scope = f", {lead.scope}" if lead.scope else ""
    return f"{lead.objective}{_where(lead, results)} at least {least}{limits}{scope}"


def located(result: Result, among: Sequence[Result]) -> str:
    """A result's text, with its workload and device if there are several, and whether it is only on record."""
    on_record = NOW in {other.evidence for other in among} and result.evidence not in ("", NOW)
    return f"{'recorded, ' if on_record else ''}{result.text(_where(result, among))}"


def _where(result: Result, among: Sequence[Result]) -> str:
    """The workload and device, if the results of bodies have several; a metric of the build belongs to the whole."""

    def of_the_build(each: Result) -> bool:
        return tail_of(each.objective)[0] in EXACT_OBJECTIVES

    if of_the_build(result):
        return ""
    measured = [other for other in among if not of_the_build(other)]
    workload = f" on {result.workload}" if len({other.workload for other in measured}) > 1 else ""
    return workload + (f" on {result.device}" if len({other.device for other in measured}) > 1 else "")


# ── one claim ────────────────────────────────────────────────────────────────────────────────────────────────────


def measured_text(claim: Claim) -> str:
    """A measured claim's estimate, its interval, and its scope over several devices."""
    interval = limits_text(claim.speedup_low or 0.0, claim.speedup_high or 0.0, claim.scale, words_of(claim))
    return ", ".join(filter(None, (estimate_of(claim), interval, scope_of(claim))))


def estimate_of(claim: Claim) -> str:
    """A measured claim's estimate in words, or that its interval shows no clear difference."""
    if standing(claim) == "level" and (claim.speedup_low or 0.0) <= 1:
        return "no clear difference"
    return gain_text(claim.speedup or 0.0, claim.scale, words_of(claim))


def means_of(claim: Claim) -> tuple[str, str] | None:
    """Both arms' means of a claim that is no ratio, since its difference says little without them."""
    if claim.scale is None or claim.baseline is None or claim.tuned is None:
        return None
    return number_text(claim.baseline.mean), number_text(claim.tuned.mean)


def device_texts(claim: Claim) -> tuple[str, ...]:
    """The result on each of a claim's several devices."""
    words = words_of(claim)
    return tuple(
        f"{unit_text(each.unit)} {gain_text(each.speedup, claim.scale, words)}, "
        f"{limits_text(each.speedup_low, each.speedup_high, claim.scale, words)}, {each.processes} processes"
        + (", an outlier among them" if each.outlier else "")
        for each in claim.devices
    )


def evidence_text(claim: Claim) -> str:
    """The statistics of a measured claim; empty for an exact one."""
    if claim.test is None:
        return ""
    checks = f", {quantity(claim.checks.checks, 'check')}" if claim.checks else ""
    return f"p = {claim.p_value:.1g}, d = {claim.cohens_d:.1f}, {claim.test.sampled}{checks}"


def estimate_texts(point: FrontPoint, better: Mapping[str, Direction]) -> dict[str, str]:
    """The search's estimate of each metric of a front's point, as a gain or a loss where its direction is known."""
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
    return f"{'worse: ' if worse else ''}{metric} {moved_text(share)}"


def moved_text(share: float) -> str:
    """A difference as a share of the baseline's magnitude, where there are no ratios."""
    return f"{'higher' if share > 0 else 'lower'} by {abs(share):.3g} of the baseline's magnitude"


# ── checks of the sampled calls ──────────────────────────────────────────────────────────────────────────────────


def told_of_checks(claim: Claim) -> tuple[str, ...]:
    """The checks between a claim's samples, or that there were none; empty for claims without timed calls."""
    if (made := claim.checks) is None:
        return unchecked([claim])
    often = f"{quantity(made.checks, 'time')}, after {quantity(made.slots, 'slot')}"
    return (f"looked at between the samples: {_BY[made.by]} {often}",)


def unchecked(claims: Iterable[Claim]) -> tuple[str, ...]:
    """The warning of claims whose sampled calls were not checked, once for all of them."""
    clocked = (claim for claim in claims if claim.kind != "exact" and tail_of(claim.objective)[0] in CLOCKED)
    return (UNCHECKED,) if any(claim.checks is None for claim in clocked) else ()


def lost_checks(steps: Iterable[ClaimStep]) -> Iterator[str]:
    """Checks and draws of the older claims that the newer ones lack, once for all of them."""
    both = [(step.old, step.new) for step in steps if step.old and step.new]
    if any(old.checks and not new.checks for old, new in both):
        yield "the sampled calls were checked before, and are no more"
    usable = [(old.stress.usable if old.stress else 0, new.stress.usable if new.stress else 0) for old, new in both]
    if fewer := next((pair for pair in usable if pair[1] < pair[0]), None):
        yield f"{quantity(fewer[0], 'usable draw')} of acf.rng before, {fewer[1]} now"


# ── stress ───────────────────────────────────────────────────────────────────────────────────────────────────────

_MOST_OUTPUTS = 5  # in one rendering
_MOST_EXACT = 2**53


def stress_notes(claims: Iterable[Claim]) -> list[str]:
    """All that is recorded of the claims that were drawn for."""
    return [f"stress: {line}" for line in stress_lines(filter(_is_drawn, claims))]


def draws_lines(claims: Iterable[Claim]) -> list[str]:
    """The draws and the differences of the claims that record a stress."""
    return stress_lines((claim for claim in claims if claim.stress is not None), ("draws", "differences"))


def less_accurate_lines(claims: Iterable[Claim]) -> list[str]:
    """The outputs in which the tuned arm is surely less accurate than the baseline."""
    return stress_lines(filter(_is_drawn, claims), ("accuracy",))


def _is_drawn(claim: Claim) -> bool:
    return claim.stress is not None and (claim.stress.draws > 0 or claim.stress.repeats)


def stress_lines(claims: Iterable[Claim], kinds: Sequence[str] = ("draws", "accuracy", "differences")) -> list[str]:
    """What the claims record, of all ``kinds`` or some; what claims of one proof share is told once."""
    devices: dict[str, dict[str, None]] = {}
    records: dict[str, Stress | None] = {}
    for claim in claims:
        key = claim.stress.model_dump_json() if claim.stress else ""
        records[key] = claim.stress
        devices.setdefault(key, {})[claim.device] = None
    return [
        f"{', '.join(devices[key])}: {line}" if len(records) > 1 else line
        for key, record in records.items()
        for kind, line in _stress(record)
        if kind in kinds
    ]


def _stress(stress: Stress | None) -> Iterator[tuple[str, str]]:
    """(``draws``, ``accuracy`` or ``differences``, line)."""
    if stress is None:
        yield "draws", "not stressed"
        return
    yield "draws", _draws(stress)
    less, others = by_accuracy(stress)
    for output in less:
        times, place = f"{output.ratio:.3g} times the baseline's error", _output(output)
        yield "accuracy", f"less accurate: {place} has {times}, and is farther off its reference on {_worse(output)}"
    if stress.repeats:
        yield "differences", "the test declares repeats=True: the gain may be one of remembered input"
    for output in others[:_MOST_OUTPUTS]:
        apart = "as near to its reference on every draw"
        if output.worse + output.better > 0:
            apart = f"farther off its reference on {_worse(output)}"
        yield "differences", f"not less accurate: {_output(output)}, {apart}"
    if stress.largest is not None:
        yield "differences", f"largest difference: {_farthest(stress.largest)}"
    elif stress.outputs:
        yield "differences", "every compared output has the baseline's bits"
    if stress.spread is not None:
        yield "differences", f"the baseline differs from itself: {_farthest(stress.spread)}"


def _draws(stress: Stress) -> str:
    if stress.draws == 0:
        return "0 draws: the body does not read acf.rng"
    seeds = f"seeds {stress.seed} to {(stress.seed or 0) + stress.draws - 1}"
    if stress.usable == 0:
        return f"{quantity(stress.draws, 'draw')}, {seeds}, none of them usable, so no failure rate is excluded"
    unusable = stress.draws - stress.usable
    count = f"{stress.usable} of {stress.draws} draws" if unusable else quantity(stress.draws, "draw")
    rest = f"; {unusable} unusable" if unusable else ""
    rate = f"{100 * failure_bound(stress.usable):.0f} %"
    return f"{count}, all clean: a failure rate above {rate} is excluded (95 %); {seeds}{rest}"


def _worse(output: Accuracy) -> str:
    return f"{output.worse} of {quantity(output.worse + output.better, 'draw')}"


def _output(place: Accuracy | Farthest) -> str:
    return f"{place.output!r} on {place.workload}"


def _farthest(place: Farthest) -> str:
    apart = f"{place.ulps:,} ulps, " if place.ulps < _MOST_EXACT else ""
    share = f"{place.relative:.2g} of the largest value" if place.relative < 1e20 else "no number in one of them"
    at = f"{_output(place)}, element {place.index}, draw {place.draw}"
    return f"{place.baseline} → {place.other}, {apart}{share} ({at})"
