"""Whether the baseline builds to the same machine code again, and in another checkout too.

It is built from a view of the project in another place: what the compiler says it reads is copied there, and everything
beside it is linked, so that a build that reads more than it says still finds it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import Signal, TuneFailed
from pytest_compileiq.model import BuildResult
from pytest_compileiq.spelling import first_of
from pytest_compileiq.toolchains.base import Place

_UPWARDS = re.compile(r"\.\.(?=/|$)")
_PYTHON_WRITES_THERE = "__pycache__"


class NotReproducible(TuneFailed):
    """The same inputs give different machine code; the message says where it differs and what to do."""


class _NotMovable(Signal):
    """The baseline cannot be built elsewhere; the message says why."""


def check_reproducible(benchmark: TunedBenchmark, built: BuildResult) -> tuple[str, ...]:
    """Build the baseline as another checkout would, and compare with ``built``.

    Returns:
        What could not be checked, in sentences.

    Raises:
        NotReproducible: the machine code differs.
        BuildError: the baseline does not build a second time.
    """
    elsewhere: BuildResult | None = None
    unchecked = tuple(_of_this_checkout(benchmark))
    try:
        elsewhere = _build_elsewhere(benchmark)
    except _NotMovable as error:
        unchecked += (f"whether another checkout gives the same machine code was not checked: {error}",)
    if elsewhere is not None and elsewhere.digest == built.digest:
        return unchecked
    again = benchmark.builder.build(None, _home(benchmark, "baseline-again"), timeout_s=benchmark.spec.timeout_s)
    if again.digest != built.digest:
        raise NotReproducible(
            "building the baseline twice in two directories gives different machine code in "
            f"{_where(built, again)}, so no artifact of it could be replayed: remove __DATE__, __TIME__ and absolute "
            "paths from the sources"
        )
    if elsewhere is not None:
        raise NotReproducible(
            "building the baseline from a copy of the project in another directory gives different machine code in "
            f"{_where(built, elsewhere)}, so no artifact of it could be replayed in another checkout: remove what puts "
            f"the place of this one ({benchmark.rootdir}) into the code"
        )
    return unchecked


def _of_this_checkout(benchmark: TunedBenchmark) -> Iterator[str]:
    """Paths of this checkout in the compiler's command, which building a copy with the same marker cannot reveal."""
    place = str(benchmark.rootdir)
    for word in benchmark.builder.compiler.command:
        if f"{place}{os.sep}" in word or word.endswith(place):
            yield f"the compiler's command names this checkout ({word}): another one is stale where it names itself"
            return


def _build_elsewhere(benchmark: TunedBenchmark) -> BuildResult:
    here, sources = benchmark.place, benchmark.fingerprint.sources
    try:
        there = lay_out(here, sources, benchmark.builder.compiler.command, _home(benchmark, "elsewhere"))
        moved = benchmark.spec.toolchain.resolve(there)
        if others := sorted(dict(moved.sources()).items() ^ sources.items()):
            raise _NotMovable(f"a copy of the project reads {others[0][0]} too: name files relative to the test file")
        return moved.build(None, _home(benchmark, "baseline-elsewhere"), timeout_s=benchmark.spec.timeout_s)
    except _NotMovable:
        raise
    except Exception as error:  # whatever a third party's toolchain raises
        raise _NotMovable(
            f"in a copy of the project: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error


def lay_out(place: Place, files: Iterable[str], words: Iterable[str], home: Path) -> Place:
    """Make a view of the project under ``home``: ``files`` are copies, all else is a link to the original.

    Args:
        files: relative to rootdir; absolute ones stay where they are, as do those of installed packages.
        words: of the compiler's command; a path in them may lead out of rootdir.

    Raises:
        OSError: something cannot be copied or linked.
    """
    files = [file for file in files if not Path(file).is_absolute() and (place.rootdir / file).exists()]
    top = _top(place, [*files, *words])

    def inside(path: Path) -> Path:
        return Path(os.path.relpath(path, top))

    copies = {inside(place.rootdir / file) for file in files}
    directories = {inside(place.test_dir), inside(place.rootdir)} | {file.parent for file in copies}
    directories |= {parent for directory in directories for parent in directory.parents}
    for directory in directories:
        (home / directory).mkdir(parents=True, exist_ok=True)
        for entry in sorted((top / directory).iterdir()):
            path = directory / entry.name
            if path not in copies and path not in directories and entry.name != _PYTHON_WRITES_THERE:
                (home / path).symlink_to(entry)
    for file in copies:
        shutil.copy2(top / file, home / file)
    return replace(place, test_dir=home / inside(place.test_dir), rootdir=home / inside(place.rootdir))


def _top(place: Place, paths: Iterable[str]) -> Path:
    """The directory that holds everything that is named relative to rootdir."""
    named = (os.path.relpath(place.test_dir, place.rootdir), *paths)
    upwards = max(len(_UPWARDS.findall(name)) for name in named)
    above = [place.rootdir, *place.rootdir.parents]
    return above[min(upwards, len(above) - 1)]


def _where(one: BuildResult, other: BuildResult) -> str:
    """The entry functions whose code differs."""
    names = sorted(name for name in one.code.keys() | other.code.keys() if one.code.get(name) != other.code.get(name))
    return ", ".join(first_of(names))


def _home(benchmark: TunedBenchmark, name: str) -> Path:
    return benchmark.builds.directory / name
