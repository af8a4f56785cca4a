"""``acf cache``: what the build cache holds, and keeping it small and whole."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import find_project
from pytest_compileiq.errors import UserError
from pytest_compileiq.spelling import quantity, utc
from pytest_compileiq.system.printing import json_text, say

if TYPE_CHECKING:
    from pytest_compileiq.store.build_cache import BuildCache, Stored

JSON_SCHEMA = 1
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cache`` to the ``acf`` command."""
    cache = verbs.add_parser(
        "cache",
        description="Show, trim or verify the builds of earlier runs, in .compileiq/builds/; safe to delete.",
    )
    cache.add_argument("what", nargs="?", choices=("show", "trim", "verify"), default="show")
    cache.add_argument("--to", metavar="SIZE", help="with trim: the largest size to keep, e.g. 0 or 100M")
    cache.add_argument("--format", choices=("terminal", "json"), default="terminal")
    cache.set_defaults(verb=_cache)


def _cache(options: argparse.Namespace) -> int:
    from pytest_compileiq.store.build_cache import BuildCache

    if options.to is not None and options.what != "trim":
        raise UserError(f"--to={options.to} says what acf cache trim leaves: acf cache trim --to={options.to}")
    cache = BuildCache(find_project(Path.cwd()))
    removed: list[Stored] = []
    if options.what == "trim":
        removed = cache.trim(_size(options.to)) if options.to is not None else cache.trim()
    damaged = cache.damaged() if options.what == "verify" else []
    for stored in damaged:
        cache.remove(stored.path)
    if options.format == "json":
        say(*json_text(_as_dict(cache, removed, damaged)).splitlines())
    else:
        say(*_lines(cache, removed, damaged))
        if options.what == "verify" and not damaged:
            say("every entry is as it was written; pytest --acf-check=rebuild holds them against new builds")
    return 1 if damaged else 0


def _lines(cache: BuildCache, removed: list[Stored], damaged: list[Stored]) -> list[str]:
    from pytest_compileiq.store.build_cache import MOST_BYTES

    lines = [f"{stored.path}: damaged, so that no run used it; removed" for stored in damaged]
    if removed:
        lines.append(f"{len(removed)} removed, {_text(_bytes(removed))}")
    stored = cache.stored()
    lines.append(
        f"{cache.root}: {quantity(len(stored), 'build')}, {_text(_bytes(stored))} of at most {_text(MOST_BYTES)}"
    )
    if stored:
        oldest, newest = (utc(stored[at].used_at) for at in (0, -1))
        lines.append(f"last used from {oldest} to {newest}")
    if not_kept := cache.not_kept():
        count = not_kept.total()
        lines.append(f"{quantity(count, 'build')} {'is' if count == 1 else 'are'} not kept, and made in every run:")
        lines += [f"  {count} × {reason}" for reason, count in not_kept.most_common()]
    return lines


def _as_dict(cache: BuildCache, removed: list[Stored], damaged: list[Stored]) -> dict[str, object]:
    from pytest_compileiq.store.build_cache import MOST_BYTES

    stored = cache.stored()
    return {
        "schema": JSON_SCHEMA,
        "directory": str(cache.root),
        "builds": len(stored),
        "bytes": _bytes(stored),
        "most_bytes": MOST_BYTES,
        "removed": len(removed),
        "damaged": [str(each.path) for each in damaged],
        "not_kept": dict(cache.not_kept().most_common()),
    }


def _bytes(stored: list[Stored]) -> int:
    return sum(each.size_bytes for each in stored)


def _text(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([KMG]?)", text)
    if match is None:
        raise UserError(f"--to={text}: expected a size, such as 0, 500K, 100M or 2G")
    return int(match[1]) * _UNITS[match[2]]
