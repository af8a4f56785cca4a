"""What a search could find, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_compileiq.outcome import Headroom


def message_of(headroom: Headroom, compiles: bool) -> str:
    """How many of the candidates are anything but the baseline."""
    what = "machine codes" if compiles else "settings"
    if not headroom.distinct:
        return f"no candidate of {headroom.candidates} changes anything: a search would find nothing here"
    among = "candidates, all of the space" if headroom.whole_space else "random candidates"
    return f"{headroom.distinct} distinct {what} among {headroom.candidates} {among}"


def notes_of(headroom: Headroom) -> tuple[str, ...]:
    """How far the metrics move, what failed, and what a night would do."""
    return tuple(_notes(headroom))


def _notes(headroom: Headroom) -> Iterator[str]:
    moving = {
        name: values
        for name, values in headroom.metrics.items()
        if (values.lowest, values.highest) != (values.baseline,) * 2
    }
    for name, values in moving.items():
        yield f"{name} {values.baseline} in the baseline, {values.lowest} to {values.highest} in the others"
    if still := [name for name in headroom.metrics if name not in moving]:
        yield f"unmoved: {', '.join(still)}"
    if headroom.unchanged:
        yield f"{headroom.unchanged} of {headroom.candidates} changed nothing"
    for kind, count in sorted(headroom.failed.items()):
        yield f"{count} of {headroom.candidates} did not build ({kind}): {headroom.first_failures[kind]}"
    cost = f"{headroom.seconds_a_build:.2g} s a build ({headroom.jobs} side by side)"
    if headroom.seconds_an_evaluation is not None:
        cost += f", {headroom.seconds_an_evaluation:.2g} s an evaluation"
    yield cost if headroom.whole_space else f"{cost}: {_night(headroom)}"
    if headroom.why_not_evaluated:
        yield f"no evaluation was timed: {headroom.why_not_evaluated}"
    yield "nothing is proven by this, and nothing was written; pytest --tune searches"


def _night(headroom: Headroom) -> str:
    most = "at most " if headroom.seconds_an_evaluation is None else ""
    return f"{most}about {_rounded(headroom.evaluations_in_8_h)} evaluations in 8 h"


def _rounded(count: int) -> str:
    """Two digits that count: the rest is not known."""
    return f"{round(count, 2 - len(str(count))):,}"
