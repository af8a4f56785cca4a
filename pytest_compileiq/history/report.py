"""A history in words and as JSON. Texts of observations are untrusted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, get_args

from pydantic_core import to_jsonable_python

from pytest_compileiq.history.records import date_of
from pytest_compileiq.history.series import Lifetime, Series
from pytest_compileiq.history.shifts import LEAST_AFTER, LEAST_BEFORE, LEAST_MOVE, Shift, share_of
from pytest_compileiq.outcome import REPLACED, End
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.rules.words import interval_text, number_text, ratio_text, words_for
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.printing import json_text

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
    table: list[tuple[str, ...]] = []
    for each in sorted(lifetimes, key=lambda each: -each.begun_s):
        after = math.floor(each.after_days)
        days = f"{after} and more" if each.after_days else "not seen since"
        if each.until_days < math.inf:
            until = math.ceil(each.until_days)
            days = "under 1" if each.until_days < 1 else f"{after} to {until}" if until > after + 1 else f"{until}"
        ends = " or ".join(_WORDS.get(end, end) for end in (*_STALE, *REPLACED) if end in each.ends)
        table.append((each.name, each.target, date_of(each.begun_s)[:10], each.commit[:12], days, ends))
    return table


HISTORY_SCHEMA = 1
MOST_SHOWN = 20  # observations of a line on a terminal; JSON has all
_COLUMNS = ("date", "baseline", "tuned", "ratio, 95 % interval", "verdict", "compiler", "driver", "code", "commit")
_SHOWN = 8  # digits of a digest
_UNUSUAL = 3.0  # standard deviations between runs


def title_of(line: Series) -> str:
    """``matmul  x86-64-v3-gcc12, runtime on AMD EPYC, default``."""
    newest = line.newest
    return f"{newest.name}  {newest.target}, {newest.objective} on {newest.device}, {newest.workload}"


def _span(line: Series) -> str:
    first, newest = line.observations[0], line.newest
    runs = len(line.observations)
    return f"{runs} runs from {first.date[:10]} to {newest.date[:10]}" if runs > 1 else f"one run, {newest.date[:10]}"


def summary_of(line: Series) -> str:
    """A series in a sentence: its span, and its last shift, or that there is none."""
    if not line.shifts:
        return f"{_span(line)}; {_steady(line)}"
    earlier = f"; {quantity(len(line.shifts) - 1, 'move')} before" if len(line.shifts) > 1 else ""
    return f"{_span(line)}; {shift_text(line, line.shifts[-1])}{earlier}"


def shift_text(line: Series, shift: Shift) -> str:
    """A shift in a sentence: its date, its size and its cause."""
    at = line.observations[shift.at]
    commit = f" (commit {at.commit[:12]})" if at.commit else ""
    known = f"; with it: {', '.join(shift.known)}" if shift.known else ""
    how = f"since {at.date[:10]}{commit} baseline {_by(line, shift.baseline)}, tuned arm {_by(line, shift.tuned)}"
    if shift.cause == "machine":
        drift = "drift of both arms on the same machine code"
        return f"{how}: the machine ({drift if shift.drifts else 'the machine code that moved is the same'}{known})"
    whose = {"tuned": "the tuned arm", "baseline": "the baseline", "both": "both arms"}
    return f"{how}: {whose[shift.cause]}{known}"


def _by(line: Series, share: float) -> str:
    if abs(share) < LEAST_MOVE:
        return "level"
    newest = line.newest
    more, less = (
        ("higher", "lower") if newest.direction == "maximize" else words_for(newest.objective, "minimize")[::-1]
    )
    return f"{abs(share):.1%} {more if share > 0 else less}"


def _steady(line: Series) -> str:
    runs = len(line.observations)
    if runs < LEAST_BEFORE:
        return f"too few to tell a move from noise: {LEAST_BEFORE + LEAST_AFTER} runs are the least that can tell"
    ratios = [math.log(each.speedup) for each in line.observations]
    usual, spread = statistics.median(ratios[:-1]), statistics.stdev(ratios[:-1])
    if abs(ratios[-1] - usual) > _UNUSUAL * spread and abs(ratios[-1] - usual) >= LEAST_MOVE:
        return f"the last run's ratio is off by {share_of(ratios[-1] - usual):+.1%}: noise until more runs bear it out"
    return f"steady: the ratio varies by {spread:.1%} between runs, noise"


def history_lines(lines: Sequence[Series], lifetimes: Sequence[Lifetime]) -> Iterator[str]:
    """The history for a terminal."""
    if not lines and not lifetimes:
        yield "nothing was proven yet: pytest --tune commits proofs, and acf history add takes the reports of runs"
    for number, line in enumerate(lines):
        yield from [""] if number else []
        yield title_of(line)
        yield f"  {_span(line) if line.shifts else summary_of(line)}"
        for shift in line.shifts:
            yield f"{'!' if shift.alarms else ' '} {shift_text(line, shift)}"
        shown = line.observations[-MOST_SHOWN:]
        if len(shown) < len(line.observations):
            yield f"  the last {len(shown)} of {len(line.observations)} runs; --format json has all"
        yield from (f"  {row}" for row in table_lines(_COLUMNS, list(rows_of(line, shown))))
    if lifetimes:
        yield from [""] if lines else []
        yield f"how long they held: {summary(lifetimes)}"
        if len(lifetimes) > MOST_LIFETIMES:
            yield f"  the newest {MOST_LIFETIMES} of {len(lifetimes)} proofs; --format json has all"
        yield from (f"  {row}" for row in table_lines(COLUMNS, rows(lifetimes)[:MOST_LIFETIMES]))


def rows_of(line: Series, shown: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """A row of a table for each of the observations ``shown``."""
    words = words_for(line.newest.objective, line.newest.direction)
    for each in shown:
        between = interval_text(each.speedup_low, each.speedup_high, words)
        is_clear = not each.speedup_low < 1 < each.speedup_high
        yield (
            each.date.replace("T", " ").removesuffix("Z"),
            number_text(each.baseline),
            number_text(each.tuned),
            f"{ratio_text(each.speedup, words) if is_clear else 'no clear difference'}, {between}",
            f"{each.verdict}{', committed' if each.source == 'proof' else ''}",
            each.compiler,
            each.driver or "",
            f"{each.baseline_code[:_SHOWN]} {each.tuned_code[:_SHOWN]}",
            (each.commit or "")[:12],
        )


def history_json(lines: Sequence[Series], lifetimes: Sequence[Lifetime]) -> str:
    """The history as versioned JSON."""
    told = [
        {
            "name": line.newest.name,
            "target": line.newest.target,
            "device": line.newest.device,
            "workload": line.newest.workload,
            "objective": line.newest.objective,
            "summary": summary_of(line),
            "observations": line.observations,
            "moves": [
                {
                    "since": line.observations[shift.at].date,
                    "seen": line.observations[shift.seen].date,
                    "cause": shift.cause,
                    "drift": shift.drifts,
                    "alarm": shift.alarms,
                    "baseline": shift.baseline,
                    "tuned": shift.tuned,
                    "known": shift.known,
                    "text": shift_text(line, shift),
                }
                for shift in line.shifts
            ],
        }
        for line in lines
    ]
    held = [
        {**asdict(each), "until_days": each.until_days if each.ends else None, "ends": sorted(each.ends)}
        for each in lifetimes
    ]
    return json_text(to_jsonable_python({"schema": HISTORY_SCHEMA, "lines": told, "lifetimes": held}))
