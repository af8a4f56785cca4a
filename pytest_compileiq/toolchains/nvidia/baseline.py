"""What a baseline's flags for ptxas or nvcc already say, so that no candidate takes it back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_compileiq.model import KnobValue
from pytest_compileiq.toolchains.nvidia.nvcc_flags import in_one_word

_LEVEL = "ptxas -O"
_HIGHEST_BY_DEFAULT = "3"  # of ptxas
_TO_PTXAS = ("Xptxas", "ptxas-options")
_LONG_NAMES = {
    "dlcm": "def-load-cache",
    "dscm": "def-store-cache",
    "flcm": "force-load-cache",
    "fscm": "force-store-cache",
    "regUsageLevel": "register-usage-level",
    "opt-fp-atomics": "optimize-float-atomics",
    "no-bb-merge": "dont-merge-basicblocks",
    "disable-optimizer-consts": "disable-optimizer-constants",
    "opt-level": "O",
}
_SWITCHES = frozenset(
    ("use_fast_math", "extra-device-vectorization", "restrict", "disable-optimizer-constants", "dont-merge-basicblocks",
     "optimize-float-atomics")
)  # fmt: skip
_IMPLIED: Mapping[str, Mapping[str, str]] = {
    "use_fast_math": {"ftz": "true", "prec-div": "false", "prec-sqrt": "false", "fmad": "true"}
}


class Baseline:
    """The settings of the words of a ``compiler``, ``ptxas`` or ``nvcc``; options of an nvcc for ptxas are ptxas's."""

    def __init__(self, compiler: str, words: Sequence[str]) -> None:
        self._compiler = compiler
        self._said = {_LEVEL: _HIGHEST_BY_DEFAULT, **self._settings(words)}

    def undone_by(self, option: str) -> bool:
        """Whether ``option`` takes back what the baseline says; of levels, whether it is a lower one."""
        meant = self._settings([option])
        level = meant.pop(_LEVEL, None)
        return (level is not None and level < self._said[_LEVEL]) or any(
            self._said.get(name, value) != value for name, value in meant.items()
        )

    def says(self, option: str) -> bool:
        """Whether ``option`` changes nothing, since the baseline says it already."""
        return self._settings([option]).items() <= self._said.items()

    def values_left(self, name: str, values: Sequence[KnobValue]) -> list[KnobValue]:
        """Those of the option's ``values`` that may be drawn; none where all of them change nothing."""
        left = [value for value in values if not self.undone_by(f"{name}{value}")]
        return [] if all(self.says(f"{name}{value}") for value in left) else left

    def _settings(self, words: Sequence[str]) -> dict[str, str]:
        settings: dict[str, str] = {}
        for name, value in _pairs(words, "host -O" if self._compiler == "nvcc" else _LEVEL):
            settings |= {**_IMPLIED.get(name, {}), name: value}
        return settings


def _pairs(words: Sequence[str], level: str) -> Iterator[tuple[str, str]]:
    """Each option's long name and its value; the level's name is ``level``."""
    for word in in_one_word(words):
        if joined := re.fullmatch(r"-O(\w)", word):
            yield level, joined[1]
            continue
        given, equals, value = word.lstrip("-").partition("=")
        name = _LONG_NAMES.get(given, given)
        if not word.startswith("-") or not name:
            continue
        if name in _SWITCHES:
            yield name, "yes"
        elif name in _TO_PTXAS:
            yield from _pairs(value.split(","), _LEVEL)
        elif equals:
            yield (level if name == "O" else name), value
