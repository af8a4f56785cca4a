"""``acf retire`` and ``acf promote``."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_compileiq.system.printing import say


def add_verbs(verbs: Any) -> None:
    """Add the verbs to the ``acf`` command."""
    retire = verbs.add_parser("retire")
    retire.add_argument("name")
    retire.add_argument("--reason", required=True, help="the reason, stored in the artifact")
    retire.add_argument("--target", help="one target (default: the only one)")
    retire.set_defaults(verb=_retire)
    promote = verbs.add_parser("promote")
    promote.add_argument("name")
    promote.add_argument("--point", required=True, type=int, metavar="K", help="its number in acf show, from 0")
    promote.add_argument("--target", help="one target (default: the only one)")
    promote.set_defaults(verb=_promote)


def _retire(options: argparse.Namespace) -> int:
    from pytest_compileiq.store.status import retire

    store, target = _located(options)
    retire(store, options.name, target, options.reason)
    say(f"{options.name} for {target} is retired; pytest --tune --tune-stale-only searches for another")
    return 0


def _promote(options: argparse.Namespace) -> int:
    from pytest_compileiq.store.status import promote

    store, target = _located(options)
    promote(store, options.name, target, options.point)
    say(f"{options.name} for {target} holds point {options.point}, unproven: run pytest --tune --tune-budget=0")
    return 0


def _located(options: argparse.Namespace) -> tuple[Any, str]:
    from pytest_compileiq.cli.locate import open_store
    from pytest_compileiq.errors import UserError

    store = open_store(options)
    targets = store.find(options.name, options.target)
    if len(targets) != 1:
        raise UserError(f"{options.name} has {', '.join(targets)}: name one with --target")
    return store, targets[0]
