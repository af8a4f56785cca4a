"""One artifact in words: ``acf show``, its control classes, its reduction. Texts of artifacts are untrusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_compileiq.artifact import Artifact, CodePair, CompilerTable
from pytest_compileiq.claim import Claim
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
    got_worse,
    stress_lines,
    told_of_checks,
)
from pytest_compileiq.rules.claims import directions
from pytest_compileiq.rules.classes import Classed, effective_classes
from pytest_compileiq.rules.conditions import told_of
from pytest_compileiq.rules.words import change_text, words_for
from pytest_compileiq.spelling import MOST_NAMED, first_of, quantity, variables_text
from pytest_compileiq.system.printing import cells, harmless, json_text
from pytest_compileiq.toolchains.option_classes import classes_in, licences_in

MOST_OPTIONS = 6  # of one class in a line


def class_facts(artifact: Artifact, most: int | None = None) -> Iterator[tuple[str, str]]:
    """What a reviewer signs: the classes of the controls, what licences make of them, and the licences.

    Args:
        most: options named of each class; None names all.
    """
    classed, licences = classes_in(artifact), licences_in(artifact)
    if text := in_effect_text(classed, licences, most):
        yield "classes", text
    yield from (("licence", licence_text(licence)) for licence in licences)


def in_effect_text(classed: Classed, licences: Sequence[Licence], most: int | None = MOST_OPTIONS) -> str:
    """As ``classes_text``, with what ``licences`` make of the classes where that is more."""
    in_effect = effective_classes(classed.own, licences)
    widened = f"; in effect {', '.join(in_effect)}" if in_effect != classed.own else ""
    return classes_text(classed, most) + widened


def classes_text(classed: Classed, most: int | None = MOST_OPTIONS) -> str:
    """``value-safe, environment (-fno-math-errno), relaxed-maths (-fassociative-math, …)``; empty without controls."""
    by_class = (_with_options(own, options, most) for own, options in classed.options.items())
    own = f"the test's own ({_few(classed.tests_own, most)})" if classed.tests_own else ""
    return ", ".join(filter(None, (*by_class, own)))


def licence_text(licence: Licence) -> str:
    """A licence, where it comes from, and what takes it away."""
    allows = "" if licence.name == licence.allows else f" ({licence.allows})"
    return f"{licence.name}{allows} by {licence.where}; {licence.remedy} takes it away"


def gained_text(gained: Iterable[ControlClass], classed: Classed, licences: Sequence[Licence]) -> str:
    """The classes ``gained``, each with the controls or the licences that bring it."""
    return ", ".join(_with_options(each, _brought_by(each, classed, licences), MOST_OPTIONS) for each in gained)


def _brought_by(wanted: ControlClass, classed: Classed, licences: Sequence[Licence]) -> tuple[str, ...]:
    licensed = (f"licence: {licence.name}" for licence in licences if licence.allows == wanted)
    return (*classed.options.get(wanted, ()), *licensed)


def _with_options(own: ControlClass, options: Sequence[str], most: int | None) -> str:
    return own if own == "value-safe" else f"{own} ({_few(options, most)})"


def _few(options: Sequence[str], most: int | None) -> str:
    more = f" and {len(options) - most} more" if most is not None and len(options) > most else ""
    return ", ".join(options[:most]) + more


_MOST_LEFT_OUT = 12  # leave-outs in one sentence
_NOT_MEASURED = "not measured"
_LARGEST = 60.0  # its exponential is 1e26


def reduction_text(reduction: Reduction) -> str:
    """How the stored controls became fewer: ``28 controls → 6: 17 change no machine code, 5 bring nothing``."""
    dropped = [
        f"{_counted(reduction.by_code, 'change')} no machine code" if reduction.by_code else "",
        f"{_counted(reduction.by_objective, 'bring')} nothing" if reduction.by_objective else "",
    ]
    if reduction.before == 1:
        return "1 control: nothing to leave out"
    told = ", ".join(filter(None, dropped)) or f"none {'was' if reduction.undecided else 'could be'} left out"
    goes_on = " (pytest --tune with a larger --tune-budget goes on)" if reduction.is_open else ""
    open_ = f"; {_counted(reduction.undecided, 'stay')} undecided{goes_on}" if reduction.undecided else ""
    larger = f"; not fewer: {reduction.kept_larger}" if reduction.kept_larger else ""
    return f"{reduction.before} controls → {reduction.after}: {told}{open_}{larger}, in {reduction.seconds:g} s"


def unreduced_text(count: int) -> str:
    """What to say of controls of which nothing was left out."""
    return f"no: all {count} controls as they were found"


def loss_texts(reduction: Reduction) -> tuple[str, ...]:
    """What was lost by it, by samples that are not kept: ``runtime: loses 0.2 %, -0.4 to 0.8``."""
    return tuple(
        f"{loss.objective} on {loss.workload}: loses {_percent(loss.loss)} % of it, "
        f"{_percent(loss.low)} to {_percent(loss.high)} (95 % interval)"
        for loss in reduction.losses
    )


def attribution_text(attribution: Attribution) -> str:
    """What is lost without each control in one line: ``without -O3 1.62 times slower, without -ffast 1.21; …``."""
    resolved = sorted(
        (entry for entry in attribution.without if entry.is_resolved), key=lambda entry: entry.step, reverse=True
    )
    words, told = "", []
    for entry in resolved[:_MOST_LEFT_OUT]:
        text, own = _resolved_text(entry)
        told.append(f"without {left_out_text(entry)} {text}{'' if own == words else f' {own}'}".rstrip())
        words = own
    more = [f"and {len(resolved) - _MOST_LEFT_OUT} more"] if len(resolved) > _MOST_LEFT_OUT else []
    return "; ".join(filter(None, (", ".join((*told, *more)), *_unresolved_texts(attribution))))


def left_out_text(entry: Without) -> str:
    """The names of what is left out."""
    return " and ".join((*entry.knobs, *(("the ACF",) if entry.acf else ())))


def entry_texts(entry: Without) -> tuple[str, str]:
    """One leave-out: what is lost without it, and the interval or the reason."""
    if entry.standing == "exact":
        told = " ".join(filter(None, _resolved_text(entry)))
        return told if entry.is_resolved else f"{entry.objective}: the same", "exact"
    if entry.standing != "measured" or entry.low is None or entry.high is None:
        return _STANDINGS[entry.standing], entry.reason or ""
    limits = f"{_number(entry.low, entry)} to {_number(entry.high, entry)}"
    if not entry.is_resolved:
        return f"{entry.objective}: not resolved", limits
    return f"{entry.objective}: {' '.join(_resolved_text(entry))}", limits


def kept_lines(artifact: Artifact) -> Iterator[str]:
    """The lines of ``acf show``."""
    if artifact.unreduced:
        yield f"  reduced    {unreduced_text(artifact.unreduced)}"
    if artifact.reduction is not None and artifact.reduction.before > 1:
        yield f"  reduced    {reduction_text(artifact.reduction)}"
        yield from (f"    {text}" for text in loss_texts(artifact.reduction))
    if artifact.attribution is not None:
        yield f"  brings     {attribution_text(artifact.attribution)}"
        for entry in artifact.attribution.without:
            yield f"    without {left_out_text(entry)}: {', '.join(filter(None, entry_texts(entry)))}"
        if text := recomputable_text(artifact.attribution):
            yield f"    {text}"


def recomputable_text(attribution: Attribution) -> str:
    """What of the table can be repeated by whoever reads it."""
    measured = any(entry.standing == "measured" for entry in attribution.without)
    return "intervals follow from the recorded loss of each process; the samples are not kept" if measured else ""


def kept_notes(artifact: Artifact) -> tuple[str, ...]:
    """What a run that stored the artifact says of it."""
    reduction = artifact.reduction
    reduced = (reduction_text(reduction),) if reduction is not None and reduction.before > 1 else ()
    brought = (attribution_text(artifact.attribution),) if artifact.attribution is not None else ()
    return (*reduced, *filter(None, brought))


_STANDINGS = {
    "idle": "idle: the machine code is the same",
    "required": "required",
    "wrong": "wrong without it",
    "left out": _NOT_MEASURED,
}


def _unresolved_texts(attribution: Attribution) -> Iterator[str]:
    resolved = {(entry.knobs, entry.acf) for entry in attribution.without if entry.is_resolved}
    groups: dict[str, dict[str, None]] = {}
    for entry in attribution.without:
        if (entry.knobs, entry.acf) not in resolved:
            exact = entry.standing == "exact"
            standing = "bring nothing alone" if exact else _IN_LINE.get(entry.standing, "not resolved")
            groups.setdefault(standing, {})[left_out_text(entry)] = None
    for standing, names in groups.items():
        if standing == _NOT_MEASURED:
            yield f"what {len(names)} {'control brings' if len(names) == 1 else 'controls bring'} was {standing}"
            continue
        more = f" and {len(names) - _MOST_LEFT_OUT} more" if len(names) > _MOST_LEFT_OUT else ""
        verb = standing.replace("bring ", "brings ", 1) if len(names) == 1 else standing
        yield f"{', '.join(list(names)[:_MOST_LEFT_OUT])}{more} {verb}"


_IN_LINE = {"idle": "idle", "required": "required", "wrong": "needed for a correct result", "left out": _NOT_MEASURED}


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


def _counted(count: int, verb: str) -> str:
    return f"{count} {verb}" if count > 1 else f"{count} {verb}s"


def _number(step: float, entry: Without) -> str:
    return f"{step:.1%}" if entry.by_share else f"{math.exp(max(-_LARGEST, min(step, _LARGEST))):.3f}"


def _percent(step: float) -> str:
    return f"{100 * step:.2f}"


SHOW_SCHEMA = 1
_MOST_SOURCES = 20  # a kernel of CUTLASS has two hundred


def setting_text(knob: str, value: object) -> str:
    """A knob and its value as they are written, e.g. ``-O3`` or ``num_warps=8``."""
    return f"{knob}{value}" if knob.startswith("-") else f"{knob}={value}"


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table as wide as its content; names are never cut off."""
    table = [list(columns), *([harmless(cell) for cell in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["─" * width for width in widths])
    for row in table:
        padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def artifact_lines(name: str, artifact: Artifact) -> Iterator[str]:
    """Everything that a reviewer wants to know about one artifact."""
    yield f"{name}  {artifact.target}  {artifact.outcome}"
    if artifact.reason:
        yield f"  reason     {artifact.reason}"
    yield f"  test       {artifact.benchmark}"
    yield from (f"  {label:<10} {text}" for label, text in made_by(artifact.compiler))
    if variables := variables_text(artifact.fingerprint.environment):
        yield f"  set        {variables}"
    if artifact.functions:
        yield f"  stands for {listed(artifact.functions)}"
    if artifact.controls is not None:
        yield f"  controls   {artifact.controls.file}, {artifact.controls.kind}, {artifact.controls.size_bytes} bytes"
        yield from (f"    {setting_text(knob, value)}" for knob, value in sorted(artifact.controls.knobs.items()))
    yield from (f"  {label:<10} {text}" for label, text in class_facts(artifact))
    built = dict.fromkeys(claim.objective for claim in artifact.claims if claim.of_the_build)
    of = {objective: _of(objective, artifact) for objective in built}
    for claim in artifact.claims:
        yield from _claim_lines(claim, of.get(claim.objective))
    for number, line in enumerate(stress_lines(artifact.claims)):
        yield f"    {line}" if number else f"  stress     {line}"
    yield from kept_lines(artifact)
    if beyond := also_changes(artifact):
        yield f"  also       changes {beyond}"
    yield from (f"  worse      {lost}" for lost in got_worse(artifact))
    yield from _front_lines(artifact)
    for entry, pair in artifact.code.items() if artifact.compiler.compiles else ():
        yield from _code_lines(entry, pair)
    sources = [f"{path} {digest[:8]}" for path, digest in artifact.fingerprint.sources.items()]
    yield from (f"  source     {text}" for text in first_of(sources, _MOST_SOURCES))
    search = artifact.search
    reasons = ", ".join(f"{count} {kind}" for kind, count in search.failures.items())
    invalid = f"{search.invalid} invalid{f' ({reasons})' if reasons else ''}"
    spent = f"{quantity(search.evaluations, 'evaluation')}, {invalid}, {quantity(search.duplicates, 'duplicate')}"
    yield f"  search     {search.engine}, seed {search.seed}: {spent}, {search.seconds:g} s"
    if search.transferred:
        yield f"  taught by  {', '.join(search.transferred)}"
    if search.portfolio:
        yield f"  portfolio  {search.portfolio}: sets of options that do well on other kernels, tried first"
    provenance = artifact.provenance
    where = "on top of" if provenance.dirty else "at"
    yield f"  made by    {provenance.tool} {where} commit {(provenance.commit or 'unknown')[:12]}"
    if provenance.notice:
        yield f"  notice     {provenance.notice}"


def artifacts_json(name: str, artifacts: Sequence[Artifact]) -> str:
    """The metadata of every target, as the store holds it, for a program to read."""
    content = [artifact.model_dump(mode="json", by_alias=True, exclude_none=True) for artifact in artifacts]
    return json_text({"schema": SHOW_SCHEMA, "name": name, "artifacts": content})


def made_by(compiler: CompilerTable) -> tuple[tuple[str, str], ...]:
    """What the knobs were given to, labelled: the compiler and its command, or packages and defaults."""
    if compiler.compiles:
        version = f"{compiler.name} {compiler.version}, {compiler.build}"
        return ("compiler", version), ("command", " ".join(compiler.command))
    return ("packages", compiler.build or "none named"), ("defaults", ", ".join(compiler.command[1:]) or "none")


def _claim_lines(claim: Claim, of: str | None) -> Iterator[str]:
    where = claim.workload if of is None else f"{claim.workload}, {of}"
    yield f"  claim      {claim.kind} on {where}: {claim_text(claim)}"
    driver = f"driver {claim.driver}" if claim.driver else ""
    variables = variables_text(claim.environment)
    yield f"    {', '.join(filter(None, (claim.device, driver, variables, evidence_text(claim))))}"
    yield from (f"    {text}" for text in device_texts(claim))
    yield from (f"    {sentence}" for sentence in (*told_of(claim), *told_of_checks(claim)))


def _of(objective: str, artifact: Artifact) -> str:
    """What an exact metric is of, and how the values of several entry functions became one."""
    measured, pattern = of_entries(objective)
    apart = artifact.compiler.apart
    functions = ((entry, pair) for entry, pair in artifact.code.items() if entry not in apart)
    entries = [entry for entry, pair in functions if measured in pair.baseline.metrics]
    if pattern is None:
        return f"{'the largest ' if measured in LARGEST and len(entries) > 1 else ''}of the whole build"
    named = matching(pattern, entries)
    how = "" if len(named) == 1 else "the largest " if measured in LARGEST else "the sum "
    return f"{how}of {listed(named, MOST_NAMED)}"


def _front_lines(artifact: Artifact) -> Iterator[str]:
    better = directions(artifact)
    if artifact.front:
        yield "  front      estimates of the search, not proven:"
    for number, point in enumerate(artifact.front):
        taken = ", committed" if artifact.controls and point.controls.sha256 == artifact.controls.sha256 else ""
        yield f"    point {number}  {', '.join(estimate_texts(point, better).values())}, {point.controls.file}{taken}"


def _code_lines(entry: str, pair: CodePair) -> Iterator[str]:
    tuned = f" → {pair.tuned.sha256[:8]}" if pair.tuned else ""
    yield f"  code       {readable(entry)}, this function alone: {pair.baseline.sha256[:8]}{tuned}"
    for metric, before in pair.baseline.metrics.items():
        after = f" → {pair.tuned.metrics[metric]}" if pair.tuned and metric in pair.tuned.metrics else ""
        yield f"    {metric} {before}{after}"
