"""The baseline's flags: which ones compile, which link, which cannot be used, and how their relative paths resolve."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import ArchitectureFrom
from pytest_compileiq.system.files import exists
from pytest_compileiq.toolchains.base import Place

CHOOSE_THE_ARCHITECTURE = ("-march=", "-mcpu=")
TAKES_A_PATH = ("-I", "-L", "-iquote", "-isystem", "-idirafter", "-include", "-imacros")
MAY_BE_A_NAME = ("-include", "-imacros")  # also looked up among the include directories
_LINKS_ONLY = ("-l", "-L", "-Wl,")
_COMPILES_ONLY = ("-I", "-D", "-U", "-i", "-W", "-std=", "-x")
ONLY_COMPILES_WITH_VALUE = ("-Xclang", "-mllvm")  # their value is the next word, and never joined to them

# Each adds a start file to the link that sets flush-to-zero in the whole process that loads the library.
_SETS_FLUSH_TO_ZERO = frozenset({"-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-mdaz-ftz"})

_UNUSABLE = {
    "-flto": "candidate options would not reach the code generation at link time",
    "-fwhole-program": "it removes the entry functions",
    "-o": "the plugin names the output",
    "-c": "the plugin chooses the stage",
    "-S": "the plugin chooses the stage",
    "-E": "the plugin chooses the stage",
    "-M": "the plugin asks for the dependencies",
    "-save-temps": "it writes beside the sources",
    "@": "an options file is not fingerprinted; write the options out",
}
_UNUSABLE_ALONE = frozenset({"-c", "-S", "-E"})


class Flags(Struct, frozen=True):
    """``compile`` goes before the sources; ``link`` before, and ``libraries`` after the objects."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def machine(self) -> tuple[str, ...]:
        """The flags that choose the processor."""
        return tuple(flag for flag in self.compile if flag.startswith("-m"))


def split_flags(flags: str, place: Place) -> Flags:
    """Read ``flags``; relative paths in them become relative to rootdir, where the compiler runs.

    Raises:
        MarkerError: a flag cannot be used, saying why.
    """
    try:
        tokens = rooted(shlex.split(flags), place)
    except ValueError as error:
        raise MarkerError(f"flags={flags!r}: {error}") from error
    return by_stage(tokens, f"flags={flags!r}")


def by_stage(tokens: Sequence[str], given: str) -> Flags:
    """``tokens``, whose paths are joined to their options, by what they reach.

    Args:
        given: where they come from, for the message.

    Raises:
        MarkerError: a flag cannot be used, saying why.
    """
    for token in tokens:
        if reason := _unusable(token):
            raise MarkerError(f"{given}: {token!r} cannot be used: {reason}")
    libraries = tuple(token for token in tokens if token.startswith(_LINKS_ONLY))
    compiles = tuple(token for token in tokens if token not in libraries)
    return Flags(compiles, tuple(_linking(compiles)), libraries)


def _linking(flags: Sequence[str]) -> Iterator[str]:
    """Those of ``flags`` that the link takes too."""
    left = iter(flags)
    for flag in left:
        if flag in ONLY_COMPILES_WITH_VALUE:
            next(left, None)
        elif not flag.startswith(_COMPILES_ONLY) and flag not in _SETS_FLUSH_TO_ZERO:
            yield flag


def who_chooses(flags: Sequence[str]) -> ArchitectureFrom:
    """Who chooses the architecture that ``flags``, as the test wrote them, compile for: the last flag decides."""
    chosen = [flag.partition("=")[2] for flag in flags if flag.startswith(CHOOSE_THE_ARCHITECTURE)]
    if not chosen:
        return "default"
    return "machine" if chosen[-1] == "native" else "test"


def _unusable(token: str) -> str | None:
    if "\0" in token:
        return "no command can hold a NUL"
    for beginning, reason in _UNUSABLE.items():
        if token == beginning or (beginning not in _UNUSABLE_ALONE and token.startswith(beginning)):
            return reason
    return None


def rooted(tokens: Sequence[str], place: Place) -> list[str]:
    """``tokens`` with paths joined to their option (``-I dir`` is ``-Idir``) and relative to rootdir."""
    joined = []
    waiting = ""
    for token in tokens:
        if token in (*TAKES_A_PATH, "-l", "-D", "-U", "-x") and not waiting:
            waiting = token
            continue
        joined.append(_with_rooted_path(waiting + token, place))
        waiting = ""
    if waiting:
        raise ValueError(f"{waiting} needs a value")
    return joined


def joined_option(word: str, options: Sequence[str]) -> str | None:
    """Which of ``options`` is joined with its value in ``word``: the longest that it begins with."""
    return max((option for option in options if word.startswith(option)), key=len, default=None)


def _with_rooted_path(flag: str, place: Place) -> str:
    option = joined_option(flag, TAKES_A_PATH)
    if option is None:
        return flag
    path = Path(flag.removeprefix(option))
    if path.is_absolute() and path.is_relative_to(place.rootdir):
        return option + path.relative_to(place.rootdir).as_posix()
    if path.is_absolute() or (option in MAY_BE_A_NAME and not exists(place.test_dir / path)):
        return flag
    return option + relative_to_rootdir(path, place)


def relative_to_rootdir(path: Path, place: Place) -> str:
    """``path``, which is relative to the test file, relative to rootdir and with forward slashes."""
    return Path(os.path.relpath(place.test_dir / path, place.rootdir)).as_posix()


def find_source(source: str, place: Place) -> str:
    """``source``, named relative to the test file, as it is named relative to the root.

    Raises:
        MarkerError: there is no such file.
    """
    path = place.test_dir / source
    if not (exists(path) and path.is_file()):
        raise MarkerError(f"Cc({source!r}): no such file: {path}; a source is named relative to the test file")
    return relative_to_rootdir(Path(source), place)
