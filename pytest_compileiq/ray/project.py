"""What of a project travels to machines that do not see it, and what keeps it from travelling.

All that git tracks or does not ignore; without a repository, all but caches and environments. Nothing ever travels back
but builds and answers.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.ray.parcel import Parcel, packed
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.vcs import listed_files

OWN_DISTRIBUTION = "pytest-compileiq"
LARGE_BYTES = 100 * 2**20
# Ray's own limit for a working directory (GCS_STORAGE_MAX_SIZE), though contents travel in smaller messages here.
MOST_BYTES = 512 * 2**20
_MIB = 2**20
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".compileiq"})
# What marks a directory as a cache (https://bford.info/cachedir/) or as an environment of Python's.
_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")


@dataclass(frozen=True)
class Listed:
    """The files of a project that travel, and those links that do not, since they lead out of it."""

    names: tuple[str, ...]
    links_out: tuple[str, ...]


def listed(root: Path) -> Listed:
    """What of the project at ``root`` travels; paths are relative to it."""
    present = sorted(name for name in listed_files(root) or _walked(root) if _may_travel(root, name))
    links_out = tuple(name for name in present if not _stays_inside(root, name))
    return Listed(tuple(name for name in present if name not in set(links_out)), links_out)


def pack_project(root: Path, contents: Path, say: Callable[[str], None]) -> Parcel:
    """The project at ``root``, read into the folder ``contents``.

    Args:
        say: tells the user one line.

    Raises:
        EnvironmentFault: it is too large, or a file has a name or a content that cannot be read.
    """
    travelling = listed(root)
    sizes = {name: (root / name).lstat().st_size for name in travelling.names}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        raise EnvironmentFault(
            f"the project has {total / _MIB:.0f} MiB, and at most {MOST_BYTES // _MIB} travel to nodes that do not see "
            f"its files: {_largest(sizes)}: name what no test needs in .gitignore"
        )
    if total > LARGE_BYTES:
        say(f"{total / _MIB:.0f} MiB of the project travel to each such node: {_largest(sizes)}: "
            "what .gitignore names stays here")  # fmt: skip
    if travelling.links_out:
        say(f"{_some(travelling.links_out)} of the project lead out of it, and do not travel")
    for name in travelling.names:
        _expect_utf8(name)
    try:
        return packed(root, travelling.names, contents)
    except OSError as error:
        raise EnvironmentFault(f"the project cannot travel: {error.filename}: {error.strerror}") from error


def expect_own_code(root: Path, libraries: tuple[str, ...]) -> None:
    """Refuse a run whose tests import code that neither travels nor is installed: a node would have another one.

    This package itself may lie anywhere, since a node's own is compared with it.

    Args:
        libraries: the directories of what is installed.

    Raises:
        EnvironmentFault: an editable install, or a module that was imported, lies outside ``root``.
    """
    for name, place in editable_installs(importlib.metadata.distributions()).items():
        if name != OWN_DISTRIBUTION and not place.is_relative_to(root.resolve()):
            raise EnvironmentFault(
                f"{name} is installed editable from {place}, which lies outside the project {root}, so that nodes "
                f"which do not see it would have other code: install it as a copy, pip install {place}"
            )
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.copy().items()}
    if astray := next(modules_astray(files, root, libraries), None):
        name, file = astray
        raise EnvironmentFault(
            f"the tests import {name} from {file}, which lies outside the project {root}, so that nodes which do not "
            "see it would have other code: install it, or move it into the project"
        )


def editable_installs(distributions: Iterable[importlib.metadata.Distribution]) -> dict[str, Path]:
    """Distribution → the directory that it is installed editable from (``direct_url.json``, PEP 610)."""
    told = {each.name: each.read_text("direct_url.json") for each in distributions}
    places = {name: _editable(text) for name, text in told.items() if text}
    return {name: place for name, place in places.items() if place is not None}


def modules_astray(
    files: Mapping[str, str | None], root: Path, libraries: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Modules of ``files``, with their files, that lie neither below ``root`` nor in ``libraries``.

    The program that was started (``__main__``) is none of them, nor is this package.
    """
    known = tuple(f"{place}{os.sep}" for place in {str(root), os.path.realpath(root), *libraries})
    for name, file in sorted(files.items()):
        is_own = name.partition(".")[0] in ("__main__", "__mp_main__", "pytest_compileiq")
        if file and Path(file).is_absolute() and not is_own and not file.startswith(known):
            yield name, file


def _walked(root: Path) -> Iterator[str]:
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        linked = [name for name in directories if (here / name).is_symlink()]
        directories[:] = [name for name in directories if name not in linked and not _is_left_out(here / name)]
        yield from ((here / name).relative_to(root).as_posix() for name in (*files, *linked))


def _is_left_out(directory: Path) -> bool:
    return directory.name in _LEFT_OUT or any((directory / mark).exists() for mark in _MARKS)


def _may_travel(root: Path, name: str) -> bool:
    """Whether it is there, is a file or a link, and no cache, though git may not have been told to ignore that."""
    path = root / name
    return _LEFT_OUT.isdisjoint(PurePosixPath(name).parts) and (path.is_symlink() or path.is_file())


def _stays_inside(root: Path, name: str) -> bool:
    try:
        inside(root, name)
    except Unfit:
        return False
    return True


def _expect_utf8(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise EnvironmentFault(
            f"the name of {os.fsencode(name)!r} is no UTF-8 and cannot travel to nodes that do not see the project: "
            "rename it, or name it in .gitignore"
        ) from error


def _largest(sizes: Mapping[str, int]) -> str:
    """The directories or files at the top that are largest, each with its size."""
    tops: dict[str, int] = {}
    for name, size in sizes.items():
        top = PurePosixPath(name).parts[0]
        tops[top] = tops.get(top, 0) + size
    largest = sorted(tops, key=lambda top: -tops[top])[:3]
    return ", ".join(f"{top} {tops[top] / _MIB:.0f}" for top in largest)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _editable(direct_url: str) -> Path | None:
    try:
        told = json.loads(direct_url)
        is_editable = told.get("dir_info", {}).get("editable", False)
        return Path(unquote(urlsplit(told["url"]).path)).resolve() if is_editable else None
    except (ValueError, KeyError, AttributeError):  # another installer's own idea of the file
        return None
