"""``acf list``, ``acf show``, ``acf check`` and ``acf doctor``: what the store holds, and what this machine has."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import named_options, open_store
from pytest_compileiq.errors import StoreError
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.printing import complain, say

if TYPE_CHECKING:
    from pytest_compileiq.claim import Claim
    from pytest_compileiq.config import NamedOptions
    from pytest_compileiq.reduction import Attribution
    from pytest_compileiq.samples import SampleTable
    from pytest_compileiq.store.store import Store


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
    doctor = verbs.add_parser("doctor")
    doctor.set_defaults(verb=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.doctor import examine, of_the_project
    from pytest_compileiq.model import Target

    store, findings = open_store(options), examine()
    lines = Counter(Target(target).line for name in store.names() for target in store.targets(name))
    section = ""
    for finding in (*of_the_project(lines, findings), *findings):
        if finding.section != section:
            section = finding.section
            say(f"{section}:")
        say(f"  {finding.name:<34} {finding.found or 'no'}")
        if finding.remedy:
            say(f"  {'':<34} → {finding.remedy}")
    return 0


def _list(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.listing import COLUMNS, list_artifacts
    from pytest_compileiq.report.artifact import table_lines

    store = open_store(options)
    listing = list_artifacts(store)
    if not listing.rows and not listing.broken:
        say(f"{store.root} holds no artifacts; make one with pytest --tune")
        return 0
    if listing.rows:
        say(*table_lines(COLUMNS, listing.rows))
    for problem in listing.broken:
        complain(problem)
    return 1 if listing.broken else 0


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
                _recompute(path, artifact.attribution)
            if artifact.controls is not None:
                held_controls(store, name, artifact, named)
        except StoreError as error:
            yield str(error)


def _recompute(path: Path, attribution: Attribution) -> None:
    from pytest_compileiq.rules.comparison import recompute_attribution  # heavy: numpy

    try:
        recompute_attribution(attribution)
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
