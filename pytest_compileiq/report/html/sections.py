"""One artifact's part of the page: its verdict and remedy, its claims with their samples, and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_compileiq.artifact import Artifact, CodePair
from pytest_compileiq.claim import Claim
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.report.artifact import (
    attribution_text,
    class_facts,
    entry_texts,
    left_out_text,
    loss_texts,
    made_by,
    recomputable_text,
    reduction_text,
    unreduced_text,
)
from pytest_compileiq.report.claims import (
    count_text,
    estimate_of,
    estimate_texts,
    gain_of,
    headline,
    located,
    stress_lines,
)
from pytest_compileiq.report.committed import MAX_CHARTED_CLAIMS, ChartedArtifact
from pytest_compileiq.report.html.charts import Chart, convergence, distribution, front, interval, run_order, unit_for
from pytest_compileiq.report.html.markup import Html, join, tag
from pytest_compileiq.report.html.verdicts import MAX_RESULTS, badge
from pytest_compileiq.rules.claims import directions, scope_of, standing, words_of
from pytest_compileiq.rules.words import gain_text, limits_text, pair_texts, unit_text
from pytest_compileiq.spelling import quantity, variables_text

MAX_ROWS = 60  # per table; an artifact may hold a megabyte of them
_DIGEST = 12
Domain = tuple[float, float]


def artifact_section(
    item: ItemReport, committed: ChartedArtifact | None, ident: str, domain: Domain, more: Sequence[Html] = ()
) -> Html:
    """Everything that the page says about one item.

    Args:
        ident: a prefix of element ids, unique in the page.
        domain: the common axis of all intervals.
        more: to be said after its claims.
    """
    heading = tag("h3", item.name, " ", tag("span", item.target, class_="target"), " ", badge(item), id=f"{ident}-h")
    parts = [heading, *_found(item)]
    if committed is not None:
        parts += _of_artifact(committed, ident, domain)
    parts += more
    back = tag("p", tag("a", "Back to the verdicts", href="#verdicts"), class_="back")
    return tag("article", *parts, back, id=ident, aria_labelledby=f"{ident}-h", tabindex="-1")


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A table whose first cells head their rows, in its own scrolling region; rows beyond 60 are counted."""
    head = tag("tr", *(tag("th", column, scope="col") for column in columns))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows[:MAX_ROWS]
    ]
    more = f" ({len(rows) - MAX_ROWS} more are not shown: acf show tells all)" if len(rows) > MAX_ROWS else ""
    content = tag("table", tag("caption", caption + more), tag("thead", head), tag("tbody", *body))
    return tag("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """A list of terms and their texts; pairs without a text are left out."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", text)) for term, text in pairs if text))


# ── what was found ───────────────────────────────────────────────────────────────────────────────────────────────


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
    notes = [*item.notes, *(f"wrote {path}" for path in item.wrote)]
    if notes:
        yield tag("ul", *(tag("li", note) for note in notes[:MAX_ROWS]), class_="notes", aria_label="Notes")


# ── what is committed ────────────────────────────────────────────────────────────────────────────────────────────


def _of_artifact(committed: ChartedArtifact, ident: str, domain: Domain) -> Iterator[Html]:
    artifact = committed.artifact
    if artifact.claims:
        columns = ("Workload", "Objective", "Claim", "Result", "Interval", "Device", "Baseline", "Tuned", "Evidence")
        yield table("Claims, as committed", columns, [_claim_row(claim, domain) for claim in artifact.claims])
        yield from _devices(artifact)
        yield tag("p", f"Stress: {'; '.join(stress_lines(artifact.claims)[:MAX_ROWS])}")
    for place, slots in committed.slots.items():
        claim = artifact.claims[place]
        charts = (
            distribution(slots, claim.objective, f"{ident}-{place}d"),
            run_order(slots, claim.objective, f"{ident}-{place}r"),
        )
        if shown := [_figure(chart, title) for chart, title in zip(charts, _titles(claim), strict=True) if chart]:
            yield tag("div", *shown, class_="figures")
        else:
            yield tag("p", f"The samples of {claim.workload} on {claim.device} cannot be drawn.")
    uncharted = sum(claim.samples is not None for claim in artifact.claims) - MAX_CHARTED_CLAIMS
    if uncharted > 0:
        yield tag("p", f"The samples of {uncharted} more claims are not drawn.")
    yield from _kept(artifact)
    yield from _front(artifact, f"{ident}-front")
    if artifact.code and artifact.compiler.compiles:
        rows = [row for entry, pair in artifact.code.items() for row in _code_rows(entry, pair)]
        metrics = table("Exact metrics of each entry function alone", ("Entry", "Metric", "Baseline", "Tuned"), rows)
        yield _folded("Machine code", metrics, unfolded=not committed.slots)
    if chart := convergence(artifact.search.improvements, artifact.search.evaluations, f"{ident}-search"):
        yield tag("div", _figure(chart, "Convergence of the search, by its own estimates"), class_="figures")
    yield _folded("Controls and search", facts(_controls(artifact)), *_knobs(artifact))
    yield _folded("Environment", facts(_environment(artifact)))
    yield _folded("Fingerprint", facts(_fingerprint(artifact)))


def _devices(artifact: Artifact) -> Iterator[Html]:
    """Results by device of every claim that is about several."""
    rows = [
        [claim.workload, claim.objective, unit_text(each.unit), gain_text(each.speedup, claim.scale, words_of(claim)),
         limits_text(each.speedup_low, each.speedup_high, claim.scale, words_of(claim)), str(each.processes),
         "an outlier" if each.outlier else ""]
        for claim in artifact.claims
        for each in claim.devices
    ]  # fmt: skip
    if rows:
        columns = ("Workload", "Objective", "Device", "Result", "95 % interval", "Processes", "")
        yield table("Results by device", columns, rows)


def _kept(artifact: Artifact) -> Iterator[Html]:
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


def _claim_row(claim: Claim, domain: Domain) -> list[str]:
    what = [claim.workload, claim.objective, claim.kind]
    worse = "worse: " if standing(claim) == "worse" else ""
    if claim.baseline_value is not None and claim.tuned_value is not None:
        before, after = claim.baseline_value, claim.tuned_value
        return [
            *what,
            f"{worse}{_change(before, after)}",
            "exact",
            claim.device,
            *_exactly(before, after),
            "read from the whole build" if claim.of_the_build else "one number in every process",
        ]
    if claim.speedup is None or claim.speedup_low is None or claim.speedup_high is None or claim.test is None:
        return [*what, *[""] * 6]
    is_ratio = claim.scale is None
    drawn = interval(claim.speedup_low, claim.speedup, claim.speedup_high, domain) if is_ratio else Html("")
    between = limits_text(claim.speedup_low, claim.speedup_high, claim.scale, words_of(claim))
    limits = tag("span", between, class_="limits")
    arms = [
        f"{unit_for(claim.objective, arm.p50).text(arm.p50)}, p95 {unit_for(claim.objective, arm.p95).text(arm.p95)}"
        for arm in (claim.baseline, claim.tuned)
        if arm
    ]
    evidence = f"p = {claim.p_value:.1g}, d = {claim.cohens_d:.3g}, {claim.test.sampled}{count_text(claim)}"
    device = ", ".join(filter(None, (claim.device, scope_of(claim))))
    return [*what, f"{worse}{estimate_of(claim)}", join([limits, drawn]), device, *arms, evidence]


def _titles(claim: Claim) -> tuple[str, str]:
    where = f"{claim.objective}, {claim.workload}, {claim.device}"
    return f"Distribution: {where}", f"Run order: {where}"


def _figure(chart: Chart, title: str) -> Html:
    return tag("figure", tag("figcaption", title, f" ({chart.note})" if chart.note else ""), chart.svg)


def _front(artifact: Artifact, ident: str) -> Iterator[Html]:
    if not artifact.front:
        return
    points, better = artifact.front[:MAX_ROWS], directions(artifact)
    names = [name for name in (points[0].metrics | points[0].shifts)
             if all(name in point.metrics | point.shifts for point in points)]  # fmt: skip
    committed = artifact.controls.sha256 if artifact.controls else None
    drawn = [name for name in names if name in better and all(name in point.metrics for point in points)]
    if len(drawn) > 1:
        gains = [[gain_of(point.metrics[name], better[name]) for name in drawn] for point in points]
        places = [(gain[0], gain[1], point.controls.sha256 == committed)
                  for gain, point in zip(gains, points, strict=True)]  # fmt: skip
        if chart := front(places, (f"gain in {drawn[0]}", f"gain in {drawn[1]}"), ident):
            caption = f"Pareto front, estimated by the search: {drawn[1]} against {drawn[0]} (the square is committed)"
            yield tag("div", _figure(chart, caption), class_="figures")
    rows = []
    for place, point in enumerate(artifact.front):
        estimates = estimate_texts(point, better)
        if all(name in estimates for name in names):
            taken = ", committed" if point.controls.sha256 == committed else ""
            rows.append([str(place), *(estimates[name] for name in names), f"{point.controls.file}{taken}"])
    yield table("Pareto front: estimates of the search, not proven", ("Point", *names, "Controls"), rows)


def _code_rows(entry: str, pair: CodePair) -> Iterator[list[str]]:
    tuned, entry = pair.tuned, readable(entry)
    yield [entry, "digest", pair.baseline.sha256[:_DIGEST], tuned.sha256[:_DIGEST] if tuned else ""]
    for metric, before in pair.baseline.metrics.items():
        after = tuned.metrics.get(metric) if tuned else None
        yield [entry, metric, f"{before:,}", "" if after is None else _changed_to(before, after)]


def _changed_to(before: int, after: int) -> str:
    return f"{after:,}" if after == before else f"{after:,} ({_change(before, after)})"


def _change(before: float, after: float) -> str:
    if before == after:
        return "no change"
    if before > 0:
        return f"{(after - before) / before:+.1%}"
    difference = after - before
    return f"{difference:+,}" if isinstance(difference, int) else f"{difference:+.4g}"


def _exactly(before: float, after: float) -> tuple[str, str]:
    if isinstance(before, int) and isinstance(after, int):
        return f"{before:,}", f"{after:,}"
    return pair_texts(before, after)


def _controls(artifact: Artifact) -> Iterator[tuple[str, str]]:
    if artifact.controls:
        yield "controls", f"{artifact.controls.file}, {artifact.controls.kind}, {artifact.controls.size_bytes} bytes"
    yield from class_facts(artifact, MAX_ROWS)
    search = artifact.search
    yield "engine", f"{search.engine}, seed {search.seed}, space {search.space[:_DIGEST]}"
    yield "spent", f"{quantity(search.evaluations, 'evaluation')} in {search.seconds:g} s"
    reasons = ", ".join(f"{count} {kind}" for kind, count in search.failures.items())
    yield "invalid", f"{quantity(search.invalid, 'candidate')}{f': {reasons}' if reasons else ''}"
    yield "duplicates", f"{search.duplicates}{' by machine code' if artifact.compiler.compiles else ''}"


def _knobs(artifact: Artifact) -> Iterator[Html]:
    if artifact.controls and artifact.controls.knobs:
        rows = [[knob, str(value)] for knob, value in sorted(artifact.controls.knobs.items())]
        yield table("Knobs that are on", ("Knob", "Value"), rows)


def _environment(artifact: Artifact) -> Iterator[tuple[str, str]]:
    yield from made_by(artifact.compiler)
    yield "set", variables_text(artifact.fingerprint.environment)
    devices: Mapping[str, None] = dict.fromkeys(map(_device, artifact.claims))
    yield "proven on", "; ".join(list(devices)[:MAX_ROWS])
    provenance = artifact.provenance
    yield "made by", provenance.tool
    yield "commit", f"{'on top of ' if provenance.dirty else ''}{provenance.commit or 'unknown'}"
    yield "CI run", provenance.runner or ""
    yield "notice", provenance.notice or ""


def _device(claim: Claim) -> str:
    power = f"power limit {claim.power_limit_w:g} W" if claim.power_limit_w is not None else ""
    driver = f"driver {claim.driver}" if claim.driver else ""
    variables = variables_text(claim.environment)
    return ", ".join(part for part in (claim.device, claim.architecture, driver, power, variables) if part)


def _fingerprint(artifact: Artifact) -> Iterator[tuple[str, str]]:
    yield "benchmark", artifact.fingerprint.benchmark[:_DIGEST]
    yield "command", artifact.fingerprint.command[:_DIGEST]
    yield from ((path, digest[:_DIGEST]) for path, digest in list(artifact.fingerprint.sources.items())[:MAX_ROWS])


def _folded(summary: str, *content: str, unfolded: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, open=unfolded)
