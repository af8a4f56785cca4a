"""Trial builds before a test is written: sources are built as it will build them, and what they lack is added."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.errors import BuildError, CompileIQError, UserError
from pytest_compileiq.machine_code.symbols import defined_symbols, undefined_symbols
from pytest_compileiq.model import BuildResult
from pytest_compileiq.toolchains.base import Builder

_MOST_SOURCES = 100
_MOST_FLAGS = 64
_BUILD_S = 120.0
_NO_HEADER = re.compile(r"fatal error: '?([^\s':]+)'?(?:: No such file| file not found)")


class NoSource(UserError):
    """It cannot be told what a function is built from; the message says why, as a part of a sentence."""


@dataclass(frozen=True)
class TrialBuild:
    """A build, or why there is none, and the objects as far as it came."""

    result: BuildResult | None
    why_not: str
    objects: tuple[Path, ...]

    @property
    def lacking_header(self) -> str | None:
        lacking = _NO_HEADER.search(self.why_not)
        return lacking[1] if lacking else None


def trial_build(
    resolve: Callable[[], Builder], folder: Path, expected: type[CompileIQError] = BuildError
) -> TrialBuild:
    """Build in a new directory of ``folder``; errors other than ``expected`` pass through."""
    folder = folder / str(len(list(folder.iterdir())))
    result, why_not = None, ""
    try:
        for version in resolve().versions:
            try:
                result = version.build(None, folder, timeout_s=_BUILD_S)
                break
            except BuildError as why:
                if not why.refused:
                    raise
                why_not = why_not or str(why)
    except expected as why:
        why_not = str(why)
    return TrialBuild(result, why_not, tuple(folder.glob("*.o")))


def with_flags(
    build: Callable[[tuple[str, ...]], TrialBuild], flag_for: Callable[[TrialBuild], str | None]
) -> tuple[tuple[str, ...], TrialBuild]:
    """Build, and again with one more flag as long as ``flag_for`` has a new one for the failure; those flags."""
    flags: tuple[str, ...] = ()
    trial = build(flags)
    while trial.result is None and len(flags) < _MOST_FLAGS and (flag := flag_for(trial)) and flag not in flags:
        flags = (*flags, flag)
        trial = build(flags)
    return flags, trial


def with_callees(
    source: Path, build: Callable[[Path], TrialBuild], source_of: Callable[[str], Path | None]
) -> tuple[tuple[Path, ...], set[str]]:
    """``source`` with the sources of its callees, and the symbols that none defines; NoSource if too many."""
    paths: tuple[Path, ...] = (source,)
    new = paths
    defined, undefined = set[str](), set[str]()
    while new:
        for each in new:
            for path in build(each).objects:
                defined, undefined = defined | defined_symbols(path), undefined | undefined_symbols(path)
        found = {source_of(symbol) for symbol in undefined - defined} - {*paths, None}
        new = tuple(sorted(filter(None, found)))
        paths = (*paths, *new)
        if len(paths) > _MOST_SOURCES:
            named = ", ".join(path.name for path in paths)
            raise NoSource(f"its callees are in more than {_MOST_SOURCES} sources: {named}")
    return paths, undefined - defined
