"""Whether a search has judged enough to say anything about the controls. Values in, a sentence out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pytest_compileiq.model import FailureKind
from pytest_compileiq.spelling import nearest, quantity

NEIGHBOUR: FailureKind = "neighbour"
NEARLY_ALL = 7 / 8
# Of searches in which 60 % are void, 0.6 ** 8 = 1.7 % are stopped by the first, and 1.3 % by the other.
FEW = 8  # candidates that are all void before a search is stopped
FEWEST = 16  # candidates before NEARLY_ALL applies
NONE_OF = 32  # candidates before a search that could measure none of them is stopped
READ_BY_NOBODY = 8  # bodies that have run before a search is stopped because none of them read a knob


def why_unjudged(
    measured: int,
    valid: int,
    invalid: Mapping[str, int],
    first_reason: Mapping[str, str],
    remedy: str,
    *,
    at_the_end: bool,
) -> str | None:
    """Why the search says nothing about its controls, or None when it may go on, or may be settled.

    A void candidate was never measured: it changes functions that the test does not look at. Where nearly all are void,
    the few others say nothing about what these controls can do.

    Args:
        measured: candidates that were measured, each machine code once.
        valid: evaluations with scores, those that only repeated a known machine code included.
        invalid: kind of failure → how many candidates failed so.
        first_reason: kind of failure → why the first of them failed.
        remedy: what to do about void candidates.
        at_the_end: the budget is spent, so that small numbers have to do.
    """
    tried = measured + sum(invalid.values())
    void = invalid.get(NEIGHBOUR, 0)
    if void and void >= NEARLY_ALL * tried and (at_the_end or tried >= (FEW if void == tried else FEWEST)):
        return (
            f"{void} of {tried} candidates were not measured, since their controls {first_reason[NEIGHBOUR]}: {remedy}"
        )
    if valid or not (at_the_end or tried >= NONE_OF):
        return None
    reasons = invalid_text(invalid, first_reason) or "the engine proposed none"
    return f"none of {quantity(tried, 'candidate')} could be measured: {reasons}"


def invalid_text(invalid: Mapping[str, int], first_reason: Mapping[str, str]) -> str:
    """How many candidates failed in each way, with the reason of the first."""
    return "; ".join(f"{count} × {kind}: {first_reason[kind]}" for kind, count in sorted(invalid.items()))


def unread_knobs(offered: Collection[str], read: Collection[str], taken: Collection[str] | None) -> tuple[str, ...]:
    """The parameters that bodies were offered, that none of them read, and that the toolchain does not take; sorted.

    Args:
        offered: knobs of the candidates whose bodies have run; those that begin with ``-`` are the compiler's.
        read: what the bodies read of ``acf.params``.
        taken: what the toolchain takes itself; None when it does not say, so that nothing is known.
    """
    if taken is None:
        return ()
    return tuple(sorted(knob for knob in offered if not knob.startswith("-") and knob not in {*read, *taken}))


def unread_text(knobs: Sequence[str], read: Collection[str] = ()) -> str:
    """The sentence for parameters that nothing reads.

    Args:
        knobs: their names.
        read: what the bodies read of ``acf.params``; a name among it that is no knob may be a misspelt one.
    """
    names = ", ".join(map(repr, knobs))
    is_one = len(knobs) == 1
    misspelt = [f"{other!r} for {knob!r}" for knob in knobs if (other := nearest(knob, set(read)))]
    instead = f" (it reads {', '.join(misspelt)}?)" if misspelt else ""
    return (
        f"{'knob' if is_one else 'knobs'} {names} {'was' if is_one else 'were'} never read, neither by the test's body "
        f"(acf.params){instead} nor by the toolchain: read {'it' if is_one else 'them'} there, or take "
        f"{'it' if is_one else 'them'} out of space="
    )
