"""How few controls are stored, and what each of them brings, in words. Texts of artifacts are untrusted."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.reduction import Attribution, Reduction, Without
from pytest_compileiq.rules.words import change_text, words_for

MOST_NAMED = 12  # leave-outs in one sentence
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
    for entry in resolved[:MOST_NAMED]:
        text, own = _resolved_text(entry)
        told.append(f"without {left_out_text(entry)} {text}{'' if own == words else f' {own}'}".rstrip())
        words = own
    more = [f"and {len(resolved) - MOST_NAMED} more"] if len(resolved) > MOST_NAMED else []
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
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        verb = standing.replace("bring ", "brings ", 1) if len(names) == 1 else standing
        yield f"{', '.join(list(names)[:MOST_NAMED])}{more} {verb}"


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
