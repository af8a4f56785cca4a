"""``acf cache``: what the build cache holds, and which builds it does not keep."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.cli.locate import find_project
from pytest_compileiq.spelling import quantity, utc
from pytest_compileiq.system.printing import json_text, say

if TYPE_CHECKING:
    from pytest_compileiq.store.build_cache import BuildCache

JSON_SCHEMA = 1


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cache`` to the ``acf`` command."""
    cache = verbs.add_parser(
        "cache",
        description="Show the builds of earlier runs, in .compileiq/builds/, which is safe to delete, and why others "
        "are not kept.",
    )
    cache.add_argument("--format", choices=("terminal", "json"), default="terminal")
    cache.set_defaults(verb=_cache)


def _cache(options: argparse.Namespace) -> int:
    from pytest_compileiq.store.build_cache import BuildCache

    cache = BuildCache(find_project(Path.cwd()))
    say(*(json_text(_as_dict(cache)).splitlines() if options.format == "json" else _lines(cache)))
    return 0


def _lines(cache: BuildCache) -> list[str]:
    from pytest_compileiq.store.build_cache import MOST_BYTES

    stored = cache.stored()
    size = sum(each.size_bytes for each in stored)
    lines = [f"{cache.root}: {quantity(len(stored), 'build')}, {_text(size)} of at most {_text(MOST_BYTES)}"]
    if stored:
        oldest, newest = (utc(stored[at].used_at) for at in (0, -1))
        lines.append(f"last used from {oldest} to {newest}")
    if not_kept := cache.not_kept():
        count = not_kept.total()
        lines.append(f"{quantity(count, 'build')} {'is' if count == 1 else 'are'} not kept, and made in every run:")
        lines += [f"  {count} × {reason}" for reason, count in not_kept.most_common()]
    return lines


def _as_dict(cache: BuildCache) -> dict[str, object]:
    from pytest_compileiq.store.build_cache import MOST_BYTES

    stored = cache.stored()
    return {
        "schema": JSON_SCHEMA,
        "directory": str(cache.root),
        "builds": len(stored),
        "bytes": sum(each.size_bytes for each in stored),
        "most_bytes": MOST_BYTES,
        "not_kept": dict(cache.not_kept().most_common()),
    }


def _text(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"
