"""Reads ``compile_commands.json``, where CMake, Meson and Bear record the command that compiles each file.

The format is https://clang.llvm.org/docs/JSONCompilationDatabase.html. It is often written by another machine, or in a
container: the place of the project there is told by the paths of its sources, and paths below it are relocated.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.files import Unfit, exists, read_regular
from pytest_compileiq.toolchains.base import Place

FILE = "compile_commands.json"
_MAKE_IT = (
    "make it with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, meson setup or bear -- make, and commit it, "
    "or make it before pytest wherever it runs"
)
_LARGEST = 512 << 20  # bytes; Chromium's database has 300 MB
_DEEPEST = 8  # response files within response files
_MOST_READ = 16 << 20  # bytes of all response files of one command
_LEAST_READ = 1 << 10  # that one of them counts for, so that they are few
_CLOSE_PATHS = 0.8  # difflib's ratio: paths of one project are alike


class Checkout(Struct, frozen=True):
    """The project's absolute path where a command was recorded, and its path here, relative to rootdir."""

    recorded: str
    here: str

    def path(self, name: str, directory: str) -> str:
        """A path of a command that ran in ``directory``: relative to rootdir if it is the project's, else absolute."""
        absolute = posixpath.normpath(posixpath.join(directory, name))
        if not self._holds(absolute):
            return absolute
        return posixpath.normpath(posixpath.join(self.here, posixpath.relpath(absolute, self.recorded)))

    def text(self, word: str) -> str:
        """``word`` with every absolute path of the project in it relative to rootdir, as in ``-DDATA="/ci/p/data"``."""
        if not self._holds(self.recorded):
            return word
        below = re.compile(rf"(?<![\w./-]){re.escape(self.recorded)}(?:/(?P<rest>[^\s\"':;,=]*)|(?![\w.-]))")
        return below.sub(lambda match: self.path(match["rest"] or ".", self.recorded), word)

    def _holds(self, absolute: str) -> bool:
        return self.recorded != "/" and f"{absolute}/".startswith(f"{self.recorded}/")


class RecordedCommand(Struct, frozen=True):
    """One recorded command; ``directory`` and ``file`` are absolute, ``output`` is empty where it is not recorded."""

    directory: str
    file: str
    words: tuple[str, ...]
    output: str

    @property
    def text(self) -> str:
        """What a choice among several commands is looked for in."""
        return f"{self.directory} {shlex.join(self.words)} {self.output}"


class Database(Struct, frozen=True):
    """A compilation database; ``choice``, the text behind the ``#`` of ``like``, chooses among commands of one file."""

    like: str
    choice: str
    entries: tuple[RecordedCommand, ...]

    def commands_of(self, source: str, rootdir: Path) -> list[tuple[RecordedCommand, Checkout]]:
        """The entries of ``source``, a path relative to rootdir, each with the checkout that it was recorded in."""
        tail = source
        while tail.startswith("../"):
            tail = tail.removeprefix("../")
        here = source.removesuffix(tail).rstrip("/") or "."
        fitting = [
            (entry, Checkout(entry.file.removesuffix(f"/{tail}") or "/", here))
            for entry in self.entries
            if entry.file.endswith(f"/{tail}")
        ]
        if not fitting:
            parts = tail.count("/") + 1
            tails = {"/".join(entry.file.rsplit("/", parts)[-parts:]) for entry in self.entries}
            raise MarkerError(
                f"like={self.like!r} has no command for {tail}{did_you_mean(tail, tails, cutoff=_CLOSE_PATHS)} among "
                f"its {len(self.entries)}: name a source that the build compiles, or give its options in flags="
            )
        absolute = os.path.normpath(rootdir / source)  # of several checkouts, this one's commands count
        return [(entry, checkout) for entry, checkout in fitting if entry.file == absolute] or fitting


def read_database(like: str, place: Place) -> Database:
    """The database that ``like`` names, relative to the test file; MarkerError where it is none."""
    name, choice = like, ""
    if not exists(place.test_dir / like):
        name, _, choice = like.partition("#")
    path = place.test_dir / name
    path = path / FILE if exists(path) and path.is_dir() else path
    if not (exists(path) and path.is_file()):
        raise MarkerError(f"like={like!r}: no such file: {path}; {_MAKE_IT}")
    return Database(like, choice, _entries(path, path.stat().st_mtime_ns))


def expanded(
    entry: RecordedCommand,
    checkout: Checkout,
    rootdir: Path,
    respelled: Callable[[Iterable[str]], Iterable[str]] = iter,
) -> Iterator[str]:
    """The words of ``entry`` with the content of its response files in their place, but for controls of artifacts.

    ``respelled`` gives words that name such a file as ``@F``.

    Raises:
        MarkerError: one of them cannot be read here, or they are too many.
    """
    left = _MOST_READ

    def expand(words: Sequence[str], depth: int) -> Iterator[str]:
        nonlocal left
        for word in respelled(words):
            if not word.startswith("@") or word.endswith(".acf"):  # no baseline has controls
                yield word
                continue
            path = rootdir / checkout.path(word[1:], entry.directory)
            try:
                if depth == _DEEPEST:
                    raise ValueError(f"{_DEEPEST} response files within each other")
                data = read_regular(path, left, follow=True)
                left -= max(len(data), _LEAST_READ)
                if left < 0:
                    raise Unfit(f"and its files have more than {_MOST_READ} bytes")
                content = shlex.split(data.decode())
                if any("\0" in text for text in content):
                    raise ValueError("it holds a NUL, which no command can")
            except (ValueError, Unfit) as error:
                raise MarkerError(
                    f"the command of {entry.file} reads {word}, which cannot be read here ({path}: {error}): build the "
                    "project first (with acf flags --on-stale=omit, if that writes it), or give the command's options "
                    "in flags="
                ) from error
            yield from expand(content, depth + 1)

    return expand(entry.words, 0)


@lru_cache(maxsize=8)
def _entries(path: Path, _changed_ns: int) -> tuple[RecordedCommand, ...]:
    try:
        content = json.loads(read_regular(path, _LARGEST, follow=True))
    except (ValueError, RecursionError, Unfit) as error:
        raise MarkerError(f"{path} is no compilation database: {error}; {_MAKE_IT}") from error
    if not isinstance(content, list):
        raise MarkerError(f"{path} is no compilation database: expected a list of commands; {_MAKE_IT}")
    return tuple(_entry(record, f"{path}: command {number}") for number, record in enumerate(content))


def _entry(record: Any, where: str) -> RecordedCommand:
    try:
        directory, file, output = record["directory"], record["file"], record.get("output", "")
        words = record["arguments"] if "arguments" in record else shlex.split(record["command"])
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise MarkerError(
            f"{where}: expected directory, file, and command or arguments ({type(error).__name__}: {error}); {_MAKE_IT}"
        ) from error
    texts = (directory, file, output, *words) if isinstance(words, list) and words else (None,)
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        raise MarkerError(f"{where}: expected texts, and a command of at least one word; {_MAKE_IT}")
    return RecordedCommand(directory, posixpath.normpath(posixpath.join(directory, file)), tuple(words), output)
