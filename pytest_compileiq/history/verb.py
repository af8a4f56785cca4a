"""``acf history``: how the times of the artifacts went, what moved them, and the reports that tell more of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import store_root
from pytest_compileiq.errors import UserError
from pytest_compileiq.rooms import HISTORY_DIRECTORY
from pytest_compileiq.system.printing import complain, say

if TYPE_CHECKING:
    from pytest_compileiq.history.records import Archive

_ADD = "add"


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``history`` to the ``acf`` command."""
    history = verbs.add_parser(
        "history",
        usage="acf history [NAME] [--device D] [--format F] [--history-dir DIR]\n"
        "       acf history add REPORT... [--history-dir DIR]",
        description="Show timings over time and the cause of each shift. With add: append the measurements of "
        "pytest --acf-report. Exits with 1 if a file of the history cannot be read.",
    )
    history.add_argument("words", nargs="*", metavar="NAME | add REPORT...", help="one artifact, or reports to add")
    history.add_argument("--device", metavar="D", help="devices with this text in their name")
    history.add_argument("--format", choices=("terminal", "json", "html"), default="terminal")
    history.add_argument("--history-dir", type=Path, metavar="DIR", help="default: acf-history, beside the artifacts")
    history.set_defaults(verb=_history)


def _history(options: argparse.Namespace) -> int:
    if options.words[:1] == [_ADD]:
        return _add(_archive(options), [Path(word) for word in options.words[1:]])
    if len(options.words) > 1:
        raise UserError(f"{' '.join(options.words)!r}: expected one NAME, or add REPORT...")
    return _show(options, options.words[0] if options.words else None)


def _archive(options: argparse.Namespace) -> Archive:
    from pytest_compileiq.history.records import Archive

    return Archive(options.history_dir or store_root(options).parent / HISTORY_DIRECTORY)


def _add(archive: Archive, reports: list[Path]) -> int:
    from pytest_compileiq.history.sources import records_in

    if not reports:
        raise UserError("acf history add: expected REPORT..., which pytest --acf-report=report.json writes")
    told = [(path, records_in(path)) for path in reports]  # all of them, before anything is added
    for path, records in told:
        added = archive.add(records)
        there = f", {len(records) - added} were there" if added < len(records) else ""
        nothing = "it measured nothing, and found of no artifact whether it holds"
        say(f"{path}: {f'{added} of {len(records)} records added{there}' if records else nothing}")
    return 0


def _show(options: argparse.Namespace, name: str | None) -> int:
    from pytest_compileiq.history.report import history_json, history_lines
    from pytest_compileiq.history.series import read_history, series_of
    from pytest_compileiq.store.store import Store

    if options.history_dir is not None and not options.history_dir.is_dir():
        raise UserError(f"there is no directory {options.history_dir}: acf history add REPORT makes one")
    read = read_history(Store(store_root(options)), _archive(options), name)
    lines = series_of(read.observations, name, options.device)
    lifetimes = [] if options.device else [each for each in read.lifetimes if name in (None, each.name)]
    if not lines and not lifetimes and (name or options.device):
        wanted = " on a device called ".join(filter(None, (name or "any artifact", options.device)))
        raise UserError(f"nothing was measured of {wanted}: acf list names the artifacts")
    if options.format == "json":
        say(*history_json(lines, lifetimes).split("\n"))
    elif options.format == "html":
        from pytest_compileiq.history.page import history_page

        say(*history_page(lines, lifetimes).split("\n"))
    else:
        say(*history_lines(lines, lifetimes))
    if read.shallow:
        complain("this clone is shallow, so how long artifacts held is not told: git fetch --unshallow")
    for problem in read.problems:
        complain(problem)
    return 1 if read.problems else 0
