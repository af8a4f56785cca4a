"""``acf diff`` and ``acf textconv``: what a change to the artifacts means, where people look at it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_compileiq import rooms
from pytest_compileiq.cli.locate import store_root
from pytest_compileiq.errors import UserError
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.system.printing import say


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    diff = verbs.add_parser(
        "diff",
        description="Summarise artifact changes between two commits, from git objects alone. Exits with 0, "
        "changes or none, and with 2 for a wrong call.",
    )
    diff.add_argument(
        "span",
        nargs="?",
        metavar="BASE[..HEAD]",
        help="two commits, or one and the work tree (default: from the merge base with main or master)",
    )
    diff.add_argument("--format", choices=("terminal", "markdown", "json"), default="terminal")
    diff.set_defaults(verb=_diff)
    textconv = verbs.add_parser("textconv")
    textconv.add_argument("file", type=Path, metavar="FILE")
    textconv.set_defaults(verb=_textconv)


def _diff(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.change import change_json, terminal_lines
    from pytest_compileiq.report.markdown import markdown_text
    from pytest_compileiq.review.compare import review
    from pytest_compileiq.store.store import Store

    store = Store(store_root(options))
    result = review(store, options.span)
    past = rooms.past(store.root.parent)
    changes = result.changes if past is None else past.with_history(result.changes, store)
    parts = result.base, result.head, changes, result.strays
    if options.format == "terminal":
        say(*terminal_lines(*parts))
    else:
        text = change_json(*parts) if options.format == "json" else markdown_text(*parts)
        say(*text.split("\n"))
    return 0


def _textconv(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.textconv import text_lines
    from pytest_compileiq.store.metadata import MAX_SAMPLES_BYTES

    try:
        data = read_regular(options.file, MAX_SAMPLES_BYTES, follow=True)
    except Unfit as why:
        raise UserError(f"{options.file} {why}") from why
    for line in text_lines(options.file.name, data):
        say(line)
    return 0
