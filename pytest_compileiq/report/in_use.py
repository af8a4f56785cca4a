"""Counts of shipped artifacts in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.spelling import quantity

COLUMNS = ("artifact", "looked for", "applied", "refused")


def headline(report: Mapping[str, Any], missing: Sequence[str]) -> str:
    """One line: how much of what was shipped was applied, and what was not, each with its reason."""
    shipped = [counts for counts in report["artifacts"].values() if counts["shipped"]]
    applied = sum(counts["applied"] > 0 for counts in shipped)
    count = report["processes"]
    processes = quantity(count, "process")
    return "; ".join([f"in use: {applied} of {len(shipped)} shipped artifacts applied in {processes}", *missing])


def counts_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A table of all artifacts; a name that is not shipped is marked."""
    rows = [
        (
            name if counts["shipped"] else f"{name} (not shipped)",
            str(counts["looked_for"]),
            str(counts["applied"]),
            str(counts["looked_for"] - counts["applied"]),
        )
        for name, counts in report["artifacts"].items()
    ]
    return table_lines(COLUMNS, rows)


def told_of(name: str, report: Mapping[str, Any]) -> str:
    """What was counted of one artifact, in a clause: ``looked for 4x, applied 0x: REASON``."""
    counts = report["artifacts"].get(name)
    if not counts or not counts["looked_for"]:
        return "never asked for"
    often = sorted(counts["refused"], key=counts["refused"].__getitem__, reverse=True)
    reason = f": {often[0]}" if often else ""
    return f"looked for {counts['looked_for']}x, applied {counts['applied']}x{reason}"
