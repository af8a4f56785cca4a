"""One artifact's part of the page: its verdict and remedy, its claims with their samples, and its origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.claim import Claim
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.report.artifact import (
    attribution_text,
    class_facts,
    controls_text,
    entry_texts,
    failures_text,
    left_out_text,
    loss_texts,
    made_by,
    recomputable_text,
    reduction_text,
    unreduced_text,
)
from pytest_compileiq.report.claims import (
    estimate_of,
    estimate_texts,
    evidence_text,
    gain_of,
    headline,
    located,
    stress_lines,
)
from pytest_compileiq.report.committed import MAX_CHARTED_CLAIMS, ChartedArtifact
from pytest_compileiq.report.html.charts import Chart, convergence, distribution, front, interval, run_order, unit_for
from pytest_compileiq.report.html.markup import MAX_ROWS, Html, facts, join, table, tag
from pytest_compileiq.rules.claims import directions, scope_of, standing, words_of
from pytest_compileiq.rules.words import gain_text, limits_text, pair_texts, unit_text
from pytest_compileiq.spelling import quantity, variables_text

MAX_RESULTS = 30  # per artifact; the table of its claims has them all
_DIGEST = 12
Domain = tuple[float, float]


def artifact_section(
    item: ItemReport, committed: ChartedArtifact | None, ident: str, domain: Domain, more: Sequence[Html] = ()
) -> Html:
    """The part of the page on one item; ``ident`` begins its ids, all intervals share ``domain``, ``more`` ends it."""
    heading = tag("h3", item.name, " ", tag("span", item.target, class_="target"), " ", badge(item), id=f"{ident}-h")
    parts = [heading, *_found(item)]
    if committed is not None:
        parts += _committed(committed, ident, domain)
    back = tag("p", tag("a", "Back to the verdicts", href="#verdicts"), class_="back")
    return tag("article", *parts, *more, back, id=ident, aria_labelledby=f"{ident}-h", tabindex="-1")


def badge(item: ItemReport) -> Html:
    """The verdict as a word and a mark, so that it does not depend on colour."""
    tone = "bad" if item.failed else "warn" if item.verdict.tone == "bad" else item.verdict.tone
    mark = tag("span", {"bad": "✗", "good": "✓", "plain": "○", "warn": "!"}[tone], aria_hidden="true")
    return tag("span", mark, " ", item.verdict, class_=f"badge {tone}")


def _found(item: ItemReport) -> Iterator[Html]:
    if item.results:
        lead = item.results[0]
        stands_on = f" on {lead.workload}, {lead.evidence}" if lead.evidence else ""
        yield tag("p", tag("strong", headline(item.results)), stands_on, class_="lead")
    if others := [tag("li", located(result, item.results)) for result in item.results[1:MAX_RESULTS]]:
        yield tag("ul", *others, class_="results", aria_label="Other results")
    if item.message:
        yield tag("p", item.message, class_="message")
    if item.remedy:
        yield tag("div", tag("p", "Remedy"), tag("pre", tag("code", item.remedy)), class_="remedy")
    if item.checks:
        checks = [
            tag("li", tag("span", check.status, class_=f"status {check.status.replace(' ', '-')}"), " ",
                tag("b", check.name), f": {check.detail}" if check.detail else "")
            for check in item.checks
        ]  # fmt: skip
        yield tag("ul", *checks, class_="checks", aria_label="Checks")
    if notes := [*item.notes, *(f"wrote {path}" for path in item.wrote)]:
        yield tag("ul", *(tag("li", note) for note in notes[:MAX_ROWS]), class_="notes", aria_label="Notes")


def _committed(committed: ChartedArtifact, ident: str, domain: Domain) -> Iterator[Html]:
    artifact = committed.artifact
    if artifact.claims:
        columns = ("Workload", "Objective", "Claim", "Result", "Interval", "Device", "Baseline", "Tuned", "Evidence")
        yield table("Claims, as committed", columns, [_claim_row(claim, domain) for claim in artifact.claims])
        rows = [
            [claim.workload, claim.objective, unit_text(each.unit),
             gain_text(each.speedup, claim.scale, words_of(claim)),
             limits_text(each.speedup_low, each.speedup_high, claim.scale, words_of(claim)), str(each.processes),
             "an outlier" if each.outlier else ""]
            for claim in artifact.claims
            for each in claim.devices
        ]  # fmt: skip
        if rows:
            by_device = ("Workload", "Objective", "Device", "Result", "95 % interval", "Processes", "")
            yield table("Results by device", by_device, rows)
        yield tag("p", f"Stress: {'; '.join(stress_lines(artifact.claims)[:MAX_ROWS])}")
    yield from _samples(committed, ident)
    yield from _reduction(artifact)
    yield from _front(artifact, f"{ident}-front")
    if artifact.code and artifact.compiler.compiles:
        caption, rows = "Exact metrics of each entry function alone", list(_code_rows(artifact))
        metrics = table(caption, ("Entry", "Metric", "Baseline", "Tuned"), rows)
        yield _folded("Machine code", metrics, unfolded=not committed.slots)
    search = artifact.search
    if chart := convergence(search.improvements, search.evaluations, f"{ident}-search"):
        yield figures((chart, "Convergence of the search, by its own estimates"))
    knobs = []
    if artifact.controls and artifact.controls.knobs:
        rows = [[knob, str(value)] for knob, value in sorted(artifact.controls.knobs.items())]
        knobs = [table("Knobs that are on", ("Knob", "Value"), rows)]
    yield _folded("Controls and search", facts(_controls(artifact)), *knobs)
    yield _folded("Environment", facts(_environment(artifact)))
    digests = {"benchmark": artifact.fingerprint.benchmark, "command": artifact.fingerprint.command}
    pairs = (*digests.items(), *list(artifact.fingerprint.sources.items())[:MAX_ROWS])
    yield _folded("Fingerprint", facts((what, digest[:_DIGEST]) for what, digest in pairs))


def _claim_row(claim: Claim, domain: Domain) -> list[str]:
    what = [claim.workload, claim.objective, claim.kind]
    worse = "worse: " if standing(claim) == "worse" else ""
    before, after = claim.baseline_value, claim.tuned_value
    if before is not None and after is not None:
        values = pair_texts(before, after)
        if isinstance(before, int) and isinstance(after, int):
            values = f"{before:,}", f"{after:,}"
        source = "read from the whole build" if claim.of_the_build else "one number in every process"
        return [*what, f"{worse}{_change(before, after)}", "exact", claim.device, *values, source]
    if claim.speedup is None or claim.speedup_low is None or claim.speedup_high is None or claim.test is None:
        return [*what, *[""] * 6]
    is_ratio = claim.scale is None
    drawn = interval(claim.speedup_low, claim.speedup, claim.speedup_high, domain) if is_ratio else Html("")
    limits = limits_text(claim.speedup_low, claim.speedup_high, claim.scale, words_of(claim))
    arms = [
        f"{unit_for(claim.objective, arm.p50).text(arm.p50)}, p95 {unit_for(claim.objective, arm.p95).text(arm.p95)}"
        for arm in (claim.baseline, claim.tuned)
        if arm
    ]
    device = ", ".join(filter(None, (claim.device, scope_of(claim))))
    shown = join([tag("span", limits, class_="limits"), drawn])
    return [*what, f"{worse}{estimate_of(claim)}", shown, device, *arms, evidence_text(claim)]


def _samples(committed: ChartedArtifact, ident: str) -> Iterator[Html]:
    claims = committed.artifact.claims
    for place, slots in committed.slots.items():
        claim = claims[place]
        where = f"{claim.objective}, {claim.workload}, {claim.device}"
        charts = (
            (distribution(slots, claim.objective, f"{ident}-{place}d"), f"Distribution: {where}"),
            (run_order(slots, claim.objective, f"{ident}-{place}r"), f"Run order: {where}"),
        )
        if shown := [(chart, title) for chart, title in charts if chart]:
            yield figures(*shown)
        else:
            yield tag("p", f"The samples of {claim.workload} on {claim.device} cannot be drawn.")
    uncharted = sum(claim.samples is not None for claim in claims) - MAX_CHARTED_CLAIMS
    if uncharted > 0:
        yield tag("p", f"The samples of {uncharted} more claims are not drawn.")


def figures(*charts: tuple[Chart, str]) -> Html:
    """Charts with their titles, side by side."""
    return tag("div", *(
        tag("figure", tag("figcaption", title, f" ({chart.note})" if chart.note else ""), chart.svg)
        for chart, title in charts
    ), class_="figures")  # fmt: skip


def _reduction(artifact: Artifact) -> Iterator[Html]:
    if artifact.unreduced:
        yield facts([("reduced", unreduced_text(artifact.unreduced))])
    if artifact.reduction is not None:
        told = (reduction_text(artifact.reduction), *loss_texts(artifact.reduction)[:MAX_ROWS])
        yield facts([("reduced", "; ".join(told))])
    if artifact.attribution is not None:
        yield tag("p", attribution_text(artifact.attribution))
        rows = [[left_out_text(entry), *entry_texts(entry)] for entry in artifact.attribution.without]
        yield table("Effect of each control", ("Without", "Objective", "95 % interval, or why not"), rows)
        yield tag("p", recomputable_text(artifact.attribution))


def _front(artifact: Artifact, ident: str) -> Iterator[Html]:
    if not artifact.front:
        return
    points, better = artifact.front[:MAX_ROWS], directions(artifact)
    names = [name for name in (points[0].metrics | points[0].shifts)
             if all(name in point.metrics | point.shifts for point in points)]  # fmt: skip
    committed = artifact.controls.sha256 if artifact.controls else None
    drawn = [name for name in names if name in better and all(name in point.metrics for point in points)][:2]
    if len(drawn) == 2:
        x, y = drawn
        places = [
            (gain_of(point.metrics[x], better[x]), gain_of(point.metrics[y], better[y]),
             point.controls.sha256 == committed)
            for point in points
        ]  # fmt: skip
        if chart := front(places, (f"gain in {x}", f"gain in {y}"), ident):
            yield figures((chart, f"Pareto front, estimated by the search: {y} against {x} (the square is committed)"))
    rows = []
    for place, point in enumerate(artifact.front):
        estimates = estimate_texts(point, better)
        if all(name in estimates for name in names):
            taken = ", committed" if point.controls.sha256 == committed else ""
            rows.append([str(place), *(estimates[name] for name in names), f"{point.controls.file}{taken}"])
    yield table("Pareto front: estimates of the search, not proven", ("Point", *names, "Controls"), rows)


def _code_rows(artifact: Artifact) -> Iterator[list[str]]:
    for entry, pair in artifact.code.items():
        name, tuned = readable(entry), pair.tuned
        yield [name, "digest", pair.baseline.sha256[:_DIGEST], tuned.sha256[:_DIGEST] if tuned else ""]
        for metric, before in pair.baseline.metrics.items():
            after = tuned.metrics.get(metric) if tuned else None
            change = f" ({_change(before, after)})" if after not in (None, before) else ""
            yield [name, metric, f"{before:,}", "" if after is None else f"{after:,}{change}"]


def _change(before: float, after: float) -> str:
    if before == after:
        return "no change"
    if before > 0:
        return f"{(after - before) / before:+.1%}"
    difference = after - before
    return f"{difference:+,}" if isinstance(difference, int) else f"{difference:+.4g}"


def _controls(artifact: Artifact) -> Iterator[tuple[str, str]]:
    if artifact.controls:
        yield "controls", controls_text(artifact.controls)
    yield from class_facts(artifact, MAX_ROWS)
    search = artifact.search
    yield "engine", f"{search.engine}, seed {search.seed}, space {search.space[:_DIGEST]}"
    yield "spent", f"{quantity(search.evaluations, 'evaluation')} in {search.seconds:g} s"
    reasons = failures_text(search)
    yield "invalid", f"{quantity(search.invalid, 'candidate')}{f': {reasons}' if reasons else ''}"
    yield "duplicates", f"{search.duplicates}{' by machine code' if artifact.compiler.compiles else ''}"


def _environment(artifact: Artifact) -> Iterator[tuple[str, str]]:
    yield from made_by(artifact.compiler)
    yield "set", variables_text(artifact.fingerprint.environment)
    devices: dict[str, None] = {}
    for claim in artifact.claims:
        power = f"power limit {claim.power_limit_w:g} W" if claim.power_limit_w is not None else ""
        driver = f"driver {claim.driver}" if claim.driver else ""
        facts_of = (claim.device, claim.architecture, driver, power, variables_text(claim.environment))
        devices[", ".join(filter(None, facts_of))] = None
    yield "proven on", "; ".join(list(devices)[:MAX_ROWS])
    provenance = artifact.provenance
    yield "made by", provenance.tool
    yield "commit", f"{'on top of ' if provenance.dirty else ''}{provenance.commit or 'unknown'}"
    yield "CI run", provenance.runner or ""
    yield "notice", provenance.notice or ""


def _folded(summary: str, *content: str, unfolded: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, open=unfolded)
