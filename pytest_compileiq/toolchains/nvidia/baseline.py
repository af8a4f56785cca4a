"""What a baseline's flags for ptxas or nvcc already say, so that no candidate takes it back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.flags import rooted

_OURS = re.compile(
    r"-o|--output-file|-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code|-cubin|--cubin|-ptx|--ptx|-fatbin|"
    r"--fatbin|-shared|--shared|-lib|--lib|-c|--compile|-dc|-dw|-dlink|-E|-M.*|-keep.*|--keep.*|-optf|--options-file|"
    r"-?-apply-controls|-odir|--output-directory|-run|--run|-dryrun|--dryrun|-v|--verbose|-h|--help|-V|--version"
)
GCC_NAMES = {
    "-I": "-I", "--include-path": "-I", "-isystem": "-isystem", "--system-include": "-isystem", "-include": "-include",
    "--pre-include": "-include",
}  # fmt: skip
_TAKE_A_WORD = frozenset(
    ("Xptxas", "ptxas-options", "Xcompiler", "compiler-options", "Xlinker", "linker-options", "std", "maxrregcount",
     "O", "ftz", "prec-div", "prec-sqrt", "fmad", "diag-suppress", "t", "threads")
)  # fmt: skip
_OF_ANOTHER = re.compile(r"-X\w+=|--\w+-options=")


def split_nvcc_flags(flags: object, place: Place) -> tuple[str, ...]:
    """The baseline's flags, with paths relative to rootdir.

    Raises:
        MarkerError: ``flags`` is not a string, or holds a flag that the plugin sets itself.
    """
    if not isinstance(flags, str):
        raise MarkerError(f"flags={flags!r}: expected one string, as in flags='-O3 -lineinfo'")
    try:
        words = tuple(map(as_nvcc_takes_it, rooted(_as_gcc_spells_it(shlex.split(flags)), place)))
    except ValueError as error:
        raise MarkerError(f"flags={flags!r}: {error}") from error
    if taken := next((word for word in _of_nvcc_itself(words) if _OURS.fullmatch(word.partition("=")[0])), None):
        raise MarkerError(f"flags={flags!r}: {taken!r} cannot be used: the plugin gives it, see arch= and output=")
    if any("apply-controls" in word for word in words):
        raise MarkerError(f"flags={flags!r}: the baseline is built without controls; the search sets the ACF")
    return words


def in_one_word(words: Iterable[str]) -> Iterator[str]:
    """``words``, each option whose value is the next word joined with it by a sign."""
    left = iter(words)
    for word in left:
        yield f"{word}={next(left, '')}" if word.startswith("-") and word.lstrip("-") in _TAKE_A_WORD else word


def as_one_definition(word: str) -> str:
    """``-DLIST=1,2`` as nvcc takes it, which splits it at commas outside quotes and leaves backslashes out."""
    if "\\" in word:
        raise MarkerError(f"Nvcc(defines=…): {word[2:]}: nvcc leaves backslashes out: define the macro in a header")
    return re.sub(r'"[^"]*"|,', lambda part: r"\," if part[0] == "," else part[0], word)


def _of_nvcc_itself(words: Iterable[str]) -> Iterator[str]:
    """``words`` without those of another program, such as ``-v`` in ``-Xptxas -v``."""
    return (word for word in in_one_word(words) if not _OF_ANOTHER.match(word))


def _as_gcc_spells_it(tokens: Sequence[str]) -> list[str]:
    """``tokens`` with options that take a path as gcc spells them: ``--system-include=d`` is ``-isystem d``."""
    spelled = []
    for token in tokens:
        name, sign, value = token.partition("=")
        spelled += [GCC_NAMES[name], *([value] if sign else [])] if name in GCC_NAMES else [token]
    return spelled


def as_nvcc_takes_it(word: str) -> str:
    """``word``, an option joined with its value, with a sign between them where nvcc demands it."""
    return re.sub(r"^(-isystem|-include|-x)(?=[^=-])", r"\1=", word)


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
