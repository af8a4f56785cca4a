"""``acf list``, ``show``, ``check``, ``report``, ``diff`` and ``textconv``: read the store."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq import rooms
from pytest_compileiq.cli.locate import named_options, open_store, store_root
from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.system.printing import complain, say

if TYPE_CHECKING:
    from pytest_compileiq.claim import Claim
    from pytest_compileiq.config import NamedOptions
    from pytest_compileiq.samples import SampleTable
    from pytest_compileiq.store.store import Store

_COLUMNS = ("name", "target", "outcome", "against the baseline, 95 % interval", "device")
_LEAST_NAMES = 500  # from here on, another process pays


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    listing = verbs.add_parser("list")
    listing.set_defaults(verb=_list)
    show = verbs.add_parser("show")
    show.add_argument("name")
    show.add_argument("--target", help="one target, e.g. x86-64-v3-gcc12 (default: all)")
    show.add_argument("--format", choices=("terminal", "json"), default="terminal")
    show.set_defaults(verb=_show)
    check = verbs.add_parser("check")
    check.set_defaults(verb=_check)
    report = verbs.add_parser("report")
    report.add_argument("file", type=Path, metavar="FILE")
    report.set_defaults(verb=_report)
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


def _list(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.artifact import table_lines
    from pytest_compileiq.system.cpu import spread

    store = open_store(options)
    parts = spread(lambda names: _rows(store, names), store.names(), least=_LEAST_NAMES)
    rows, broken = [row for part, _ in parts for row in part], [problem for _, part in parts for problem in part]
    if not rows and not broken:
        say(f"{store.root} holds no artifacts; make one with pytest --tune")
        return 0
    if rows:
        say(*table_lines(_COLUMNS, rows))
    for problem in broken:
        complain(problem)
    return 1 if broken else 0


def _rows(store: Store, names: Sequence[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """A row for each artifact, and why others cannot be read."""
    from pytest_compileiq.report.claims import brief_text, results_of

    rows: list[tuple[str, ...]] = []
    broken = []
    for name in names:
        try:
            for target, artifact in store.read_targets(name):
                if isinstance(artifact, StoreError):
                    broken.append(str(artifact))
                    continue
                results = results_of(artifact.claims)
                device = results[0].device if results else ""
                rows.append((name, target, artifact.outcome, brief_text(results), device))
        except StoreError as error:  # its directory cannot be listed
            broken.append(str(error))
    return rows, broken


def _show(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.artifact import artifact_lines, artifacts_json
    from pytest_compileiq.toolchains.option_classes import check_classes

    store = open_store(options)
    broken = False
    shown = []
    for target in store.find(options.name, options.target):  # one broken file does not hide the others
        try:
            shown.append(artifact := store.read(options.name, target))
            check_classes(artifact)
        except StoreError as error:
            complain(str(error))
            broken = True
    if options.format == "json":
        say(*artifacts_json(options.name, shown).splitlines())
    else:
        say(*(line for artifact in shown for line in artifact_lines(options.name, artifact)))
    return 2 if broken else 0


def _check(options: argparse.Namespace) -> int:
    from pytest_compileiq.rules.claims import direction_of

    recomputed = []

    def hold(claim: Claim, rows: SampleTable) -> None:
        from pytest_compileiq.rules.recompute import recompute, recorded_thresholds  # heavy: numpy

        recompute(claim, rows, thresholds=recorded_thresholds(claim), direction=direction_of(claim))
        recomputed.append(claim)

    store, named = open_store(options), named_options(options)
    store.clear_partial()
    health = store.health(hold=hold)
    unhealthy = {entry.path for entry in health}
    problems = [*(entry.problem for entry in health), *_unheld(store, named, unhealthy)]
    say(*problems)
    counts = (
        quantity(sum(1 for _ in store.artifacts()), "artifact"),
        quantity(len(recomputed), "claim") + " recomputed",
        quantity(len(problems), "problem"),
    )
    say(", ".join(counts))
    say("This proves arithmetic, not truth: pytest rebuilds them, and measures them on the device they were proven on.")
    return 1 if problems else 0


def _unheld(store: Store, named: NamedOptions, unhealthy: Container[Path]) -> Iterator[str]:
    """Why otherwise healthy artifacts do not hold: what their controls bring, or that these may not be committed."""
    from pytest_compileiq.ship.flags import held_controls

    for name, target in store.artifacts():
        path = store.metadata_path(name, target)
        if path in unhealthy:
            continue
        try:
            artifact = store.read(name, target)
            if artifact.attribution is not None:
                from pytest_compileiq.rules.comparison import recompute_attribution  # heavy: numpy

                try:
                    recompute_attribution(artifact.attribution)
                except StoreError as error:
                    raise StoreError(f"{path}: {error}") from error
            if artifact.controls is not None:
                held_controls(store, name, artifact, named)
        except StoreError as error:
            yield str(error)


def _report(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.committed import report_of_store
    from pytest_compileiq.report.html.page import write_html

    store = open_store(options)
    report = report_of_store(store)
    write_html(report, store, options.file, title="Compiler controls as committed")
    count = quantity(len(report.items), "artifact")
    say(f"{options.file}: {count}, as committed; pytest --acf-html writes what a run found")
    return 1 if report.store_problems or any(item.failed for item in report.items) else 0


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
