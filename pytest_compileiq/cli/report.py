"""``acf report FILE``: the store as one HTML page. Nothing is rebuilt or measured, and the page says so."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import open_store
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.printing import say

if TYPE_CHECKING:
    from pytest_compileiq.store.store import Store


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``report`` to the ``acf`` command."""
    report = verbs.add_parser("report")
    report.add_argument("file", type=Path, metavar="FILE")
    report.set_defaults(verb=lambda options: _report(open_store(options), options.file))


def _report(store: Store, path: Path) -> int:
    from pytest_compileiq.report.committed import report_of_store
    from pytest_compileiq.report.html.page import write_html

    report = report_of_store(store)
    write_html(report, store, path, title="Compiler controls as committed")
    say(f"{path}: {quantity(len(report.items), 'artifact')}, as committed; pytest --acf-html writes what a run found")
    return 1 if report.store_problems or any(item.failed for item in report.items) else 0
