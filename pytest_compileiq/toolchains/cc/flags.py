"""The baseline's flags: which ones compile, which link, which cannot be used, and how their relative paths resolve."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import ArchitectureFrom, ControlClass
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


def split_flags(flags: str, place: Place) -> Flags:
    """Read ``flags``; relative paths in them become relative to rootdir, where the compiler runs."""
    try:
        tokens = rooted(shlex.split(flags), place)
    except ValueError as error:
        raise MarkerError(f"flags={flags!r}: {error}") from error
    return by_stage(tokens, f"flags={flags!r}")


def by_stage(tokens: Sequence[str], given: str) -> Flags:
    """``tokens``, whose paths are joined to their options, by what they reach."""
    for token in tokens:
        if "\0" in token:
            raise MarkerError(f"{given}: {token!r} cannot be used: no command can hold a NUL")
        for beginning, reason in _UNUSABLE.items():
            if token == beginning or (beginning not in _UNUSABLE_ALONE and token.startswith(beginning)):
                raise MarkerError(f"{given}: {token!r} cannot be used: {reason}")
    libraries = tuple(token for token in tokens if token.startswith(_LINKS_ONLY))
    compiles = tuple(token for token in tokens if token not in libraries)
    links, left = [], iter(compiles)
    for flag in left:
        if flag in ONLY_COMPILES_WITH_VALUE:
            next(left, None)
        elif not flag.startswith(_COMPILES_ONLY) and flag not in _SETS_FLUSH_TO_ZERO:
            links.append(flag)
    return Flags(compiles, tuple(links), libraries)


def who_chooses(flags: Sequence[str]) -> ArchitectureFrom:
    """Who chooses the architecture that ``flags``, as the test wrote them, compile for: the last flag decides."""
    chosen = [flag.partition("=")[2] for flag in flags if flag.startswith(CHOOSE_THE_ARCHITECTURE)]
    if not chosen:
        return "default"
    return "machine" if chosen[-1] == "native" else "test"


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


def find_file(name: object, place: Place, given: str, subject: str = "it") -> str:
    """``name``, which is relative to the test file, relative to rootdir.

    Raises:
        MarkerError: there is no such file as ``given``.
    """
    path = place.test_dir / str(name)
    if not (isinstance(name, str) and exists(path) and path.is_file()):
        raise MarkerError(f"{given}: no such file: {path}; {subject} is named relative to the test file")
    return relative_to_rootdir(Path(name), place)


_LEVEL = re.compile(r"-O(\w*)")
_LEVELS = {"0": 0, "": 1, "1": 1, "g": 1, "2": 2, "s": 2, "z": 2, "3": 3, "fast": 3}
_HIGHEST = 3
# Manuals: gcc switches -fstrict-aliasing on with -O2 and -Os; clang uses the types of accesses wherever it optimises.
_ASSUMES_ALIASING = {"gcc": 2, "g++": 2, "gfortran": 2}
_FROM_THE_FIRST = 1
_ALIASING = frozenset({"-fstrict-aliasing", "-fno-strict-aliasing"})

_UNSAFE = ("-fno-signed-zeros", "-fno-trapping-math", "-fassociative-math", "-freciprocal-math")
_FAST = (*_UNSAFE, "-funsafe-math-optimizations", "-fno-math-errno", "-ffinite-math-only")
_IMPLIED: Mapping[str, Sequence[str]] = {
    "-funsafe-math-optimizations": _UNSAFE,
    "-ffast-math": _FAST,
    "-Ofast": _FAST,
    "-fsignaling-nans": ("-ftrapping-math",),
    "-ftree-vectorize": ("-ftree-loop-vectorize", "-ftree-slp-vectorize"),
    "-ffp-model=fast": _FAST,
    "-ffp-model=precise": ("-fno-fast-math", "-ffp-contract=on"),
    "-ffp-model=strict": ("-fno-fast-math", "-ftrapping-math", "-ffp-contract=off"),
    "-ffp-exception-behavior=strict": ("-ftrapping-math",),
    "-ffp-exception-behavior=maytrap": ("-ftrapping-math",),
}
_IMPLIED_BY_CLANG = dict.fromkeys(
    ("-funsafe-math-optimizations", "-ffast-math", "-Ofast"), ("-fapprox-func", "-ffp-contract=fast")
)


class BaselineFlags(Struct, frozen=True, dict=True):
    """The flags that each source is compiled with before a candidate's options, by ``gcc`` or ``clang``."""

    compiler: str
    sources: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, compiler: str, command: Sequence[str]) -> BaselineFlags:
        sources = dict.fromkeys(tuple(_options_of(flags)) for _, flags, _ in recorded_compilations(command))
        return cls(compiler, tuple(sources) or (tuple(_options_of(_before(command, "--link"))),))

    def widened(self, control_class: ControlClass, option: str) -> ControlClass:
        """The class of ``option`` behind this baseline: a level may switch on what the baseline does not assume."""
        level, assumed_from = _level(option), _ASSUMES_ALIASING.get(self.compiler, _FROM_THE_FIRST)
        is_news = level is not None and self._lowest_level < assumed_from <= level
        return "relaxed-semantics" if is_news else control_class

    def undone_by(self, option: str) -> bool:
        """Whether ``option`` takes back what the baseline says, in the same words or by what they imply."""
        level = _level(option)
        if level is not None:
            return any("-Ofast" in flags or level < _level_of(flags) for flags in self.sources)
        meant = self._settings([option])
        return any(said.get(switch, value) != value for said in self._said for switch, value in meant.items())

    def meant_by(self, option: str) -> list[str]:
        """``option`` behind those that it stands for."""
        return list(self._with_implied([option]))

    def says(self, option: str) -> bool:
        """Whether ``option`` changes nothing, since every source is compiled with it already."""
        if _level(option) is not None:
            return all(
                ([flag for flag in flags if _LEVEL.fullmatch(flag)] or ["-O0"])[-1] == option for flags in self.sources
            )
        meant = self._settings([option]).items()
        return bool(meant) and all(meant <= said.items() for said in self._said)

    @cached_property
    def _said(self) -> Sequence[Mapping[str, str]]:
        return [self._settings(flags) for flags in self.sources]

    @cached_property
    def _lowest_level(self) -> int:
        """The lowest level among the sources whose flags do not say whether pointers of different types may alias."""
        levels = [_level_of(flags) for flags in self.sources if _ALIASING.isdisjoint(flags)]
        return min(levels, default=_HIGHEST)

    def _settings(self, flags: Sequence[str]) -> dict[str, str]:
        """Switch → what ``flags`` set it to, the last of them; ``yes`` and ``no`` for those that take no value."""
        settings: dict[str, str] = {}
        for flag in self._with_implied(flags):
            if switch := re.fullmatch(r"-(?:([fm])(no-)?|-param[= ])([^=]+)(?:=(.*))?", flag, re.DOTALL):
                letter, negated, name, value = switch.groups()
                settings[f"{letter or '--param '}{name}"] = "no" if negated else "yes" if value is None else value
        return settings

    def _with_implied(self, flags: Sequence[str]) -> Iterator[str]:
        for flag in flags:
            positive = flag.replace("-fno-", "-f", 1)
            implied = list(_IMPLIED.get(positive, ()))
            if self.compiler.startswith("clang"):
                implied += _IMPLIED_BY_CLANG.get(positive, ())
            yield from self._with_implied([_opposite(each) for each in implied] if positive != flag else implied)
            yield flag


def _opposite(flag: str) -> str:
    if "=" in flag:
        return f"{flag.partition('=')[0]}=on"  # of -ffp-contract=fast, the one value that is implied
    return flag.replace("-fno-", "-f", 1) if flag.startswith("-fno-") else flag.replace("-f", "-fno-", 1)


def _level(option: str) -> int | None:
    level = _LEVEL.fullmatch(option) if option.startswith("-O") else None  # most flags of a command are others
    return _LEVELS.get(level[1], _HIGHEST) if level else None


def _level_of(flags: Sequence[str]) -> int:
    return next((level for flag in reversed(flags) if (level := _level(flag)) is not None), 0)


def recorded_compilations(command: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    """(compiler, flags, source) of each source of a recorded command: all alike, or each its own before ``--then``."""
    compiles = _before(command, "--link")
    begin = _before(compiles, "--then")
    bare = [
        place
        for place, word in enumerate(begin)
        if not (word.startswith("-") or (place and begin[place - 1] in (*ONLY_COMPILES_WITH_VALUE, "--param")))
    ]
    if len(begin) == len(compiles):
        flags = [word for place, word in enumerate(begin) if place not in bare]
        yield from ((begin[0], flags, begin[place]) for place in bare[1:])
        return
    for compiler, source in zip(bare[::2], bare[1::2], strict=False):
        yield begin[compiler], [*begin[compiler + 1 : source], *compiles[len(begin) + 1 :]], begin[source]


def _before(words: Sequence[str], border: str) -> list[str]:
    return list(words[: words.index(border)] if border in words else words)


def _options_of(words: Sequence[str]) -> list[str]:
    """The options among ``words``; ``--param NAME=VALUE`` becomes one."""
    joined = re.sub(r"(?<=\0)--param\0", "--param=", "\0" + "\0".join(words))
    return [word for word in joined.split("\0") if word.startswith("-")]
