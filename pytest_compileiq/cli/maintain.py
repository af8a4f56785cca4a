"""``acf promote``, ``retire``, ``prune`` and ``cache``: what is committed, what is orphaned, what is kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import find_project, open_store
from pytest_compileiq.errors import UserError
from pytest_compileiq.spelling import quantity, utc
from pytest_compileiq.system.printing import json_text, say

if TYPE_CHECKING:
    from pytest_compileiq.store.store import Store

_CACHE_SCHEMA = 1


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    retire = verbs.add_parser("retire")
    retire.add_argument("--reason", required=True, help="the reason, stored in the artifact")
    retire.set_defaults(verb=_retire)
    promote = verbs.add_parser("promote")
    promote.add_argument("--point", required=True, type=int, metavar="K", help="its number in acf show, from 0")
    promote.set_defaults(verb=_promote)
    for verb in (retire, promote):
        verb.add_argument("name")
        verb.add_argument("--target", help="one target (default: the only one)")
    prune = verbs.add_parser(
        "prune", description="List artifacts without a test; remove the named ones, or all with --yes."
    )
    prune.add_argument("names", nargs="*", metavar="NAME")
    prune.add_argument("--yes", action="store_true", help="remove all listed artifacts")
    prune.set_defaults(verb=_prune)
    cache = verbs.add_parser(
        "cache",
        description="Show the builds of earlier runs, in .compileiq/builds/, which is safe to delete, and why others "
        "are not kept.",
    )
    cache.add_argument("--format", choices=("terminal", "json"), default="terminal")
    cache.set_defaults(verb=_cache)


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


def _located(options: argparse.Namespace) -> tuple[Store, str]:
    store = open_store(options)
    targets = store.find(options.name, options.target)
    if len(targets) != 1:
        raise UserError(f"{options.name} has {', '.join(targets)}: name one with --target")
    return store, targets[0]


def _prune(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.orphans import collect_claims
    from pytest_compileiq.store.status import orphans as orphans_of

    store = open_store(options)
    store.require(options.names)
    project = find_project(Path.cwd())
    claims = collect_claims(project)
    if claimed := [name for name in options.names if name in claims.tests]:
        raise UserError(f"{claimed[0]} is no orphan: {claims.tests[claimed[0]]} claims it")
    orphans = options.names or orphans_of(store, claims.tests, project, claims.untuned)
    for name in orphans:
        say(f"{name}: {', '.join(store.targets(name)) or 'no targets'}")
    if not orphans:
        say("no artifact is orphaned")
    elif not options.names and claims.left_out:
        missing = ", ".join(claims.left_out[:3])
        raise UserError(f"{missing} could not be collected, and may claim these: mend that, or name what is to go")
    elif options.names or options.yes:
        for name in orphans:
            store.remove(name)
        say(f"{len(orphans)} removed; git checkout brings them back")
    else:
        say("nothing removed: add --yes, or name what is to go")
    return 0


def _cache(options: argparse.Namespace) -> int:
    from pytest_compileiq.store.build_cache import MOST_BYTES, BuildCache

    cache = BuildCache(find_project(Path.cwd()))
    stored, not_kept = cache.stored(), cache.not_kept()
    size = sum(each.size_bytes for each in stored)
    if options.format == "json":
        content = {
            "schema": _CACHE_SCHEMA,
            "directory": str(cache.root),
            "builds": len(stored),
            "bytes": size,
            "most_bytes": MOST_BYTES,
            "not_kept": dict(not_kept.most_common()),
        }
        say(*json_text(content).splitlines())
        return 0
    mebibytes, most = (f"{count / (1 << 20):.1f} MiB" for count in (size, MOST_BYTES))
    say(f"{cache.root}: {quantity(len(stored), 'build')}, {mebibytes} of at most {most}")
    if stored:
        say(f"last used from {utc(stored[0].used_at)} to {utc(stored[-1].used_at)}")
    if count := not_kept.total():
        say(f"{quantity(count, 'build')} {'is' if count == 1 else 'are'} not kept, and made in every run:")
        say(*(f"  {count} × {reason}" for reason, count in not_kept.most_common()))
    return 0
