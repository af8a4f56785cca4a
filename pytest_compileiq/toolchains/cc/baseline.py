"""What the baseline's flags already say: its levels of -O, and the switches that no candidate may undo."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from pytest_compileiq.model import ControlClass
from pytest_compileiq.toolchains.cc.flags import ONLY_COMPILES_WITH_VALUE

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


class Baseline(Struct, frozen=True, dict=True):
    """The flags that each source is compiled with before a candidate's options, by ``gcc`` or ``clang``."""

    compiler: str
    sources: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, compiler: str, command: Sequence[str]) -> Baseline:
        """The baseline whose recorded command this is."""
        return cls(compiler, tuple(map(tuple, _by_source(command))))

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

    def says(self, option: str) -> bool:
        """Whether ``option`` changes nothing, since every source is compiled with it already."""
        if _level(option) is not None:
            return all(
                ([flag for flag in flags if _LEVEL.fullmatch(flag)] or ["-O0"])[-1] == option for flags in self.sources
            )
        return all(self._settings([option]).items() <= said.items() for said in self._said)

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
    """The level that ``option`` sets; None if it sets none."""
    level = _LEVEL.fullmatch(option) if option.startswith("-O") else None  # most flags of a command are others
    return _LEVELS.get(level[1], _HIGHEST) if level else None


def _level_of(flags: Sequence[str]) -> int:
    """The level that the last of ``flags`` to set one sets."""
    return next((level for flag in reversed(flags) if (level := _level(flag)) is not None), 0)


def _by_source(command: Sequence[str]) -> Iterator[list[str]]:
    """The flags of each source in a recorded command; of one that compiles all sources alike, the flags of all."""
    compiles = list(command[: command.index("--link")] if "--link" in command else command)
    if "--then" not in compiles:
        yield _options_of(compiles)
        return
    border = compiles.index("--then")
    behind, own = _options_of(compiles[border + 1 :]), compiles[:border]
    bare = [place for place, word in enumerate(own) if not word.startswith("-") and not _is_value(own, place)]
    for compiler, source in zip(bare[::2], bare[1::2], strict=False):
        yield [*_options_of(own[compiler:source]), *behind]


def _is_value(words: Sequence[str], place: int) -> bool:
    return place > 0 and words[place - 1] in ONLY_COMPILES_WITH_VALUE


def _options_of(words: Sequence[str]) -> list[str]:
    """The options among ``words``; ``--param NAME=VALUE`` becomes one."""
    joined = re.sub(r"(?<=\0)--param\0", "--param=", "\0" + "\0".join(words))
    return [word for word in joined.split("\0") if word.startswith("-")]
