"""Lifetimes of proofs, in words and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pytest_compileiq.history.lifetimes import Lifetime
from pytest_compileiq.history.records import date_of
from pytest_compileiq.outcome import REPLACED, End
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.spelling import quantity

MOST_LIFETIMES = 20  # of all artifacts on a terminal, the newest; JSON has all
COLUMNS = ("artifact", "target", "proven", "commit", "days", "ended by")
_STALE: tuple[End, ...] = tuple(end for end in get_args(End) if end not in REPLACED)
_WORDS: dict[End, str] = {"gain": "gain gone", "wrong": "wrong results"}


def summary(lifetimes: Sequence[Lifetime]) -> str:
    """The number of proofs by outcome, in a sentence."""
    stale, replaced = (sum(bool(each.ends & set(kinds)) for each in lifetimes) for kinds in (_STALE, REPLACED))
    going_on = sum(not each.ends for each in lifetimes)
    return (
        f"{quantity(len(lifetimes), 'proof')} of {quantity(len({each.name for each in lifetimes}), 'artifact')}: "
        f"{stale} ended stale, {replaced} replaced or withdrawn before that, {going_on} not known to have ended"
    )


def rows(lifetimes: Sequence[Lifetime]) -> list[tuple[str, ...]]:
    """A row of ``COLUMNS`` for each proof, the newest first."""
    return [
        (
            each.name,
            each.target,
            date_of(each.begun_s)[:10],
            each.commit[:12],
            _days_text(each),
            " or ".join(_WORDS.get(end, end) for end in (*_STALE, *REPLACED) if end in each.ends),
        )
        for each in sorted(lifetimes, key=lambda each: -each.begun_s)
    ]


def _days_text(lifetime: Lifetime) -> str:
    """``12``, ``19 to 24``, or ``29 and more``."""
    after, until = math.floor(lifetime.after), lifetime.until
    if until == math.inf:
        return f"{after} and more" if lifetime.after else "not seen since"
    if until < 1:
        return "under 1"
    until = math.ceil(until)
    return f"{after} to {until}" if until > after + 1 else f"{until}"


def lifetime_lines(lifetimes: Sequence[Lifetime]) -> Iterator[str]:
    """The section for a terminal."""
    yield f"how long they held: {summary(lifetimes)}"
    if len(lifetimes) > MOST_LIFETIMES:
        yield f"  the newest {MOST_LIFETIMES} of {len(lifetimes)} proofs; --format json has all"
    yield from (f"  {row}" for row in table_lines(COLUMNS, rows(lifetimes)[:MOST_LIFETIMES]))


def lifetime_values(lifetimes: Sequence[Lifetime]) -> list[dict[str, Any]]:
    """As in the JSON of ``acf history``: days since the proof; ``until_days`` is null where it goes on."""
    return [
        {
            "name": each.name,
            "target": each.target,
            "begun_s": each.begun_s,
            "commit": each.commit,
            "after_days": each.after,
            "until_days": each.until if each.ends else None,
            "ends": sorted(each.ends),
        }
        for each in lifetimes
    ]
