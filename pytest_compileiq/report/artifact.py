"""One artifact in words: ``acf show``, its control classes, its reduction. Texts of artifacts are untrusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_compileiq.artifact import Artifact, CompilerTable, Controls, SearchRecord
from pytest_compileiq.machine_code.metrics import LARGEST
from pytest_compileiq.machine_code.names import listed, matching, readable
from pytest_compileiq.model import ControlClass, Licence, of_entries
from pytest_compileiq.reduction import Attribution, Reduction, Without
from pytest_compileiq.report.claims import (
    also_changes,
    claim_text,
    device_texts,
    estimate_texts,
    evidence_text,
    stress_lines,
    told_of_checks,
    worse_texts,
)
from pytest_compileiq.rules.claims import directions, told_of, worse_entries
from pytest_compileiq.rules.classes import Classed, effective_classes
from pytest_compileiq.rules.words import change_text, words_for
from pytest_compileiq.spelling import MOST_NAMED, first_of, quantity, variables_text
from pytest_compileiq.system.printing import cells, harmless, json_text
from pytest_compileiq.toolchains.option_classes import classes_in, licences_in

MOST_OPTIONS = 6  # of one class in a line
SHOW_SCHEMA = 1
_MOST_SOURCES = 20  # a kernel of CUTLASS has two hundred


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table as wide as its content; names are never cut off."""
    table = [list(columns), *([harmless(cell) for cell in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["─" * width for width in widths])
    for row in table:
        padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def artifact_lines(name: str, artifact: Artifact) -> Iterator[str]:
    """An artifact for a terminal: facts with labels, and lines that belong to them."""
    yield f"{name}  {artifact.target}  {artifact.outcome}"
    for label, text, *more in _facts(artifact):
        yield f"  {label:<10} {text}"
        yield from (f"    {line}" for line in more)


def _facts(artifact: Artifact) -> Iterator[Sequence[str]]:
    """(label, text, further lines) of each fact."""
    if artifact.reason:
        yield "reason", artifact.reason
    yield "test", artifact.benchmark
    yield from made_by(artifact.compiler)
    if variables := variables_text(artifact.fingerprint.environment):
        yield "set", variables
    if artifact.functions:
        yield "stands for", listed(artifact.functions)
    if controls := artifact.controls:
        settings = (setting_text(knob, value) for knob, value in sorted(controls.knobs.items()))
        yield "controls", controls_text(controls), *settings
    yield from class_facts(artifact)
    of = {objective: _of(objective, artifact) for objective in dict.fromkeys(
        claim.objective for claim in artifact.claims if claim.of_the_build
    )}  # fmt: skip
    for claim in artifact.claims:
        what = of.get(claim.objective)
        where = claim.workload if what is None else f"{claim.workload}, {what}"
        driver = f"driver {claim.driver}" if claim.driver else ""
        evidence = (claim.device, driver, variables_text(claim.environment), evidence_text(claim))
        more = (", ".join(filter(None, evidence)), *device_texts(claim), *told_of(claim), *told_of_checks(claim))
        yield "claim", f"{claim.kind} on {where}: {claim_text(claim)}", *more
    if stress := stress_lines(artifact.claims):
        yield "stress", *stress
    yield from _reduction_facts(artifact)
    if beyond := also_changes(artifact):
        yield "also", f"changes {beyond}"
    yield from (("worse", lost) for lost in worse_texts(worse_entries(artifact)))
    if artifact.front:
        better, taken = directions(artifact), artifact.controls.sha256 if artifact.controls else None
        points = (
            f"point {number}  {', '.join(estimate_texts(point, better).values())}, {point.controls.file}"
            + (", committed" if point.controls.sha256 == taken else "")
            for number, point in enumerate(artifact.front)
        )
        yield "front", "estimates of the search, not proven:", *points
    for entry, pair in artifact.code.items() if artifact.compiler.compiles else ():
        after = pair.tuned.metrics if pair.tuned else {}
        metrics = (
            f"{metric} {before}{f' → {after[metric]}' if metric in after else ''}"
            for metric, before in pair.baseline.metrics.items()
        )
        tuned = f" → {pair.tuned.sha256[:8]}" if pair.tuned else ""
        yield "code", f"{readable(entry)}, this function alone: {pair.baseline.sha256[:8]}{tuned}", *metrics
    sources = [f"{path} {digest[:8]}" for path, digest in artifact.fingerprint.sources.items()]
    yield from (("source", text) for text in first_of(sources, _MOST_SOURCES))
    search, provenance = artifact.search, artifact.provenance
    reasons = failures_text(search)
    invalid = f"{search.invalid} invalid{f' ({reasons})' if reasons else ''}"
    spent = f"{quantity(search.evaluations, 'evaluation')}, {invalid}, {quantity(search.duplicates, 'duplicate')}"
    yield "search", f"{search.engine}, seed {search.seed}: {spent}, {search.seconds:g} s"
    if search.transferred:
        yield "taught by", ", ".join(search.transferred)
    if search.portfolio:
        yield "portfolio", f"{search.portfolio}: sets of options that do well on other kernels, tried first"
    where = "on top of" if provenance.dirty else "at"
    yield "made by", f"{provenance.tool} {where} commit {(provenance.commit or 'unknown')[:12]}"
    if provenance.notice:
        yield "notice", provenance.notice


def artifacts_json(name: str, artifacts: Sequence[Artifact]) -> str:
    """The metadata of every target, as the store holds it."""
    content = [artifact.model_dump(mode="json", by_alias=True, exclude_none=True) for artifact in artifacts]
    return json_text({"schema": SHOW_SCHEMA, "name": name, "artifacts": content})


def setting_text(knob: str, value: object) -> str:
    """A knob and its value as they are written, e.g. ``-O3`` or ``num_warps=8``."""
    return f"{knob}{value}" if knob.startswith("-") else f"{knob}={value}"


def controls_text(controls: Controls) -> str:
    """The controls file."""
    return f"{controls.file}, {controls.kind}, {controls.size_bytes} bytes"


def failures_text(search: SearchRecord) -> str:
    """The invalid candidates of a search by kind."""
    return ", ".join(f"{count} {kind}" for kind, count in search.failures.items())


def made_by(compiler: CompilerTable) -> tuple[tuple[str, str], ...]:
    """The recipient of the knobs, labelled: the compiler and its command, or packages and defaults."""
    if compiler.compiles:
        version = f"{compiler.name} {compiler.version}, {compiler.build}"
        return ("compiler", version), ("command", " ".join(compiler.command))
    return ("packages", compiler.build or "none named"), ("defaults", ", ".join(compiler.command[1:]) or "none")


def _of(objective: str, artifact: Artifact) -> str:
    """The functions behind an exact metric, and how their values became one."""
    measured, pattern = of_entries(objective)
    functions = ((entry, pair) for entry, pair in artifact.code.items() if entry not in artifact.compiler.apart)
    entries = [entry for entry, pair in functions if measured in pair.baseline.metrics]
    if pattern is None:
        return f"{'the largest ' if measured in LARGEST and len(entries) > 1 else ''}of the whole build"
    named = matching(pattern, entries)
    how = "" if len(named) == 1 else "the largest " if measured in LARGEST else "the sum "
    return f"{how}of {listed(named, MOST_NAMED)}"


# ── classes of controls ──────────────────────────────────────────────────────────────────────────────────────────


def class_facts(artifact: Artifact, most: int | None = None) -> Iterator[tuple[str, str]]:
    """The classes of the controls, of each ``most`` options, their widening by licences, and the licences; labelled."""
    classed, licences = classes_in(artifact), licences_in(artifact)
    if text := in_effect_text(classed, licences, most):
        yield "classes", text
    yield from (("licence", licence_text(licence)) for licence in licences)


def in_effect_text(classed: Classed, licences: Sequence[Licence], most: int | None = MOST_OPTIONS) -> str:
    """``value-safe, relaxed-maths (-fassociative-math, …)``, and the classes in effect if licences widen them."""
    texts = [_with_options(own, options, most) for own, options in classed.options.items()]
    if classed.tests_own:
        texts.append(f"the test's own ({_few(classed.tests_own, most)})")
    in_effect = effective_classes(classed.own, licences)
    widened = f"; in effect {', '.join(in_effect)}" if in_effect != classed.own else ""
    return ", ".join(texts) + widened


def licence_text(licence: Licence) -> str:
    """A licence, its place, and its remedy."""
    allows = "" if licence.name == licence.allows else f" ({licence.allows})"
    return f"{licence.name}{allows} by {licence.where}; {licence.remedy} takes it away"


def gained_text(gained: Iterable[ControlClass], classed: Classed, licences: Sequence[Licence]) -> str:
    """The classes ``gained``, each with the controls or the licences that bring it."""
    texts = []
    for each in gained:
        licensed = (f"licence: {licence.name}" for licence in licences if licence.allows == each)
        texts.append(_with_options(each, (*classed.options.get(each, ()), *licensed), MOST_OPTIONS))
    return ", ".join(texts)


def _with_options(own: ControlClass, options: Sequence[str], most: int | None) -> str:
    return own if own == "value-safe" else f"{own} ({_few(options, most)})"


def _few(options: Sequence[str], most: int | None) -> str:
    more = f" and {len(options) - most} more" if most is not None and len(options) > most else ""
    return ", ".join(options[:most]) + more


# ── reduction and attribution ────────────────────────────────────────────────────────────────────────────────────

_MOST_LEFT_OUT = 12  # in one sentence
_LARGEST = 60.0  # its exponential is 1e26
_NOT_MEASURED = "not measured"
_IN_TABLE = {
    "idle": "idle: the machine code is the same",
    "required": "required",
    "wrong": "wrong without it",
    "left out": _NOT_MEASURED,
}
_IN_LINE = {
    "idle": "idle",
    "required": "required",
    "wrong": "needed for a correct result",
    "left out": _NOT_MEASURED,
    "exact": "bring nothing alone",
}


def _reduction_facts(artifact: Artifact) -> Iterator[Sequence[str]]:
    if artifact.unreduced:
        yield "reduced", unreduced_text(artifact.unreduced)
    if artifact.reduction is not None and artifact.reduction.before > 1:
        yield "reduced", reduction_text(artifact.reduction), *loss_texts(artifact.reduction)
    if attribution := artifact.attribution:
        entries = (
            f"without {left_out_text(entry)}: {', '.join(filter(None, entry_texts(entry)))}"
            for entry in attribution.without
        )
        recomputable = recomputable_text(attribution)
        yield "brings", attribution_text(attribution), *entries, *([recomputable] if recomputable else [])


def kept_notes(artifact: Artifact) -> tuple[str, ...]:
    """The notes of a run that stored the artifact."""
    reduction = artifact.reduction
    reduced = reduction_text(reduction) if reduction is not None and reduction.before > 1 else ""
    return tuple(filter(None, (reduced, attribution_text(artifact.attribution) if artifact.attribution else "")))


def reduction_text(reduction: Reduction) -> str:
    """How the stored controls became fewer: ``28 controls → 6: 17 change no machine code, 5 bring nothing``."""
    if reduction.before == 1:
        return "1 control: nothing to leave out"

    def counted(count: int, verb: str, rest: str) -> str:
        return f"{count} {verb}{'' if count > 1 else 's'} {rest}"

    dropped = [
        counted(reduction.by_code, "change", "no machine code") if reduction.by_code else "",
        counted(reduction.by_objective, "bring", "nothing") if reduction.by_objective else "",
    ]
    told = ", ".join(filter(None, dropped)) or f"none {'was' if reduction.undecided else 'could be'} left out"
    goes_on = " (pytest --tune with a larger --tune-budget goes on)" if reduction.is_open else ""
    undecided = f"; {counted(reduction.undecided, 'stay', 'undecided')}{goes_on}" if reduction.undecided else ""
    larger = f"; not fewer: {reduction.kept_larger}" if reduction.kept_larger else ""
    return f"{reduction.before} controls → {reduction.after}: {told}{undecided}{larger}, in {reduction.seconds:g} s"


def unreduced_text(count: int) -> str:
    """The reduction of controls that were stored as found."""
    return f"no: all {count} controls as they were found"


def loss_texts(reduction: Reduction) -> tuple[str, ...]:
    """The loss by the reduction, by samples that are not kept: ``runtime: loses 0.2 %, -0.4 to 0.8``."""
    return tuple(
        f"{loss.objective} on {loss.workload}: loses {100 * loss.loss:.2f} % of it, "
        f"{100 * loss.low:.2f} to {100 * loss.high:.2f} (95 % interval)"
        for loss in reduction.losses
    )


def attribution_text(attribution: Attribution) -> str:
    """The loss without each control in one line: ``without -O3 1.62 times slower, without -ffast 1.21; …``."""
    resolved = sorted((each for each in attribution.without if each.is_resolved), key=lambda each: -each.step)
    words, told = "", []
    for entry in resolved[:_MOST_LEFT_OUT]:
        text, own = _resolved_text(entry)
        told.append(f"without {left_out_text(entry)} {text}{'' if own == words else f' {own}'}".rstrip())
        words = own
    if len(resolved) > _MOST_LEFT_OUT:
        told.append(f"and {len(resolved) - _MOST_LEFT_OUT} more")
    sentences = [", ".join(told)] if told else []
    known = {(entry.knobs, entry.acf) for entry in resolved}
    groups: dict[str, dict[str, None]] = {}
    for entry in attribution.without:
        if (entry.knobs, entry.acf) not in known:
            groups.setdefault(_IN_LINE.get(entry.standing, "not resolved"), {})[left_out_text(entry)] = None
    for standing, names in groups.items():
        if standing == _NOT_MEASURED:
            sentences.append(
                f"what {len(names)} {'control brings' if len(names) == 1 else 'controls bring'} was {standing}"
            )
        else:
            verb = standing.replace("bring ", "brings ", 1) if len(names) == 1 else standing
            sentences.append(f"{_few(list(names), _MOST_LEFT_OUT)} {verb}")
    return "; ".join(sentences)


def left_out_text(entry: Without) -> str:
    """The names of the controls that are left out."""
    return " and ".join((*entry.knobs, *(("the ACF",) if entry.acf else ())))


def entry_texts(entry: Without) -> tuple[str, str]:
    """The loss without a control, and the interval or the reason."""
    if entry.standing == "exact":
        told = " ".join(filter(None, _resolved_text(entry)))
        return told if entry.is_resolved else f"{entry.objective}: the same", "exact"
    if entry.standing != "measured" or entry.low is None or entry.high is None:
        return _IN_TABLE[entry.standing], entry.reason or ""

    def number(step: float) -> str:
        return f"{step:.1%}" if entry.by_share else f"{math.exp(max(-_LARGEST, min(step, _LARGEST))):.3f}"

    told = " ".join(_resolved_text(entry)) if entry.is_resolved else "not resolved"
    return f"{entry.objective}: {told}", f"{number(entry.low)} to {number(entry.high)}"


def recomputable_text(attribution: Attribution) -> str:
    """The part of the table that a reader can recompute."""
    measured = any(entry.standing == "measured" for entry in attribution.without)
    return "intervals follow from the recorded loss of each process; the samples are not kept" if measured else ""


def _resolved_text(entry: Without) -> tuple[str, str]:
    """By how much the objective is worse without it, and the words for that."""
    better, worse = words_for(entry.objective or "", entry.direction or "minimize")
    if entry.standing == "exact":
        before, after = entry.value or 0, entry.value_without or 0
        is_worse = (after > before) == (entry.direction == "minimize")
        return f"{entry.objective} {change_text(before, after)}", "" if is_worse else "(better)"
    step = entry.loss or 0.0
    if entry.by_share:
        return f"{abs(step):.1%}", f"of its magnitude {worse if step > 0 else better}"
    return f"{math.exp(min(abs(step), _LARGEST)):.3g}", f"times {worse if step > 0 else better}"
