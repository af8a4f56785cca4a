"""What a history adds to a review of a change, and to the page of a run: nothing where none was added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from pytest_compileiq.history.lines import Line, added_lines, of_artifact
from pytest_compileiq.history.plot import line_parts
from pytest_compileiq.history.report import summary_of
from pytest_compileiq.report.committed import MAX_CHARTED_CLAIMS
from pytest_compileiq.report.html.markup import Html
from pytest_compileiq.rules.diff import Change
from pytest_compileiq.spelling import MOST_NAMED, quantity
from pytest_compileiq.store.store import Store


def with_history(changes: Sequence[Change], store: Store) -> tuple[Change, ...]:
    """The changes, each with a sentence a line of its artifact."""
    lines = added_lines(store, {change.name for change in changes})
    return tuple(
        replace(change, history=tuple(_sentences(of_artifact(lines, change.name, change.target)))) for change in changes
    )


def _sentences(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines[:MOST_NAMED]:
        yield f"{line.newest.objective} on {line.newest.device}, {line.newest.workload}: {summary_of(line)}"
    if len(lines) > MOST_NAMED:
        yield f"and {quantity(len(lines) - MOST_NAMED, 'more line')}: acf history"


def page_parts(store: Store, names: Collection[str]) -> Callable[[str, str, str], list[Html]]:
    """(artifact, target, prefix of ids) → what a page says of its history."""
    lines = added_lines(store, names)

    def parts(name: str, target: str, ident: str) -> list[Html]:
        own = of_artifact(lines, name, target)[:MAX_CHARTED_CLAIMS]
        return [part for number, line in enumerate(own) for part in line_parts(line, f"{ident}-{number}h")]

    return parts
