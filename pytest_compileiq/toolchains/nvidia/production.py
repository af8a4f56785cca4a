"""The command that production compiles a CUDA source with, from a compilation database: its flags, without outputs.

CMake, Ninja and Bear record nvcc's commands as they record gcc's. Left out are what the plugin gives itself (outputs,
the stage, architectures) and what makes warnings errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compilation_database import Checkout, Entry, expanded
from pytest_compileiq.toolchains.cc.production import Production, launched, production_command
from pytest_compileiq.toolchains.nvidia.options import GCC_NAMES, as_nvcc_takes_it, in_one_word

_OPTIONS_FILE = ("-optf", "--options-file")
_ARCHITECTURES = re.compile(
    r"(?:-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code)=(?P<value>.*)", re.DOTALL
)
_REAL = re.compile(r"sm_\w+")
_LEFT_OUT = re.compile(
    r"-c|--compile|-dw|--device-w|-cubin|--cubin|-ptx|--ptx|-fatbin|--fatbin|-shared|--shared|-lib|--lib|-MM?D?|-MP|"
    r"-(?:-generate-nonsystem-|-generate-)?dependenc.*|-v|--verbose|-keep.*|--keep.*|-x=cu|"
    r"(?:-o|--output-file|-MF|-MT|-odir|--output-directory|-?-?Werror)(?:=.*)?|-?-time=.*",
    re.DOTALL,
)
_SEPARATE = ("-dc", "--device-c")
_TAKES_THE_NEXT = (
    "-o", "--output-file", "-MF", "-MT", "-odir", "--output-directory", "-x", "-Werror", "--Werror", "-D", "-U", "-L",
    "-l", "-ccbin", "--compiler-bindir", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode",
    "--generate-code",
)  # fmt: skip


def nvcc_command(like: str, source: str, architectures: Sequence[str], place: Place) -> Production:
    """How production compiles ``source``, which is relative to rootdir, for the architectures that the marker names.

    Raises:
        MarkerError: there is no such database or command, several differ, a command cannot be used, or it compiles
            for other architectures.
    """

    def read(entry: Entry, checkout: Checkout) -> Production:
        return _read(entry, checkout, place.rootdir, architectures)

    return production_command(like, source, place, read)


def _read(entry: Entry, checkout: Checkout, rootdir: Path, architectures: Sequence[str]) -> Production:
    recorded = list(_as_response_files(entry.words))
    before, (compiler, *words) = launched(expanded(recorded, entry, checkout, rootdir))
    if "/" in compiler:
        compiler = str(rootdir / checkout.path(compiler, entry.directory))
    flags: list[str] = []
    made_for: set[str] = set()
    for word in in_one_word(_in_pairs(words)):
        if named := _ARCHITECTURES.fullmatch(word):
            made_for.update(_REAL.findall(named["value"]))
        elif word in _SEPARATE:
            flags.append("-rdc=true")
        elif word.startswith("-") and not _LEFT_OUT.fullmatch(word) and "apply-controls" not in word:
            flags.append(_here(word, entry, checkout))
    if other := sorted(set(architectures) - made_for):
        known = ", ".join(sorted(made_for)) or "no real architecture"
        raise MarkerError(f"its command compiles for {known}, and not for {other[0]}: name those in arch=")
    return Production(compiler, tuple(flags), tuple(before))


def _as_response_files(words: Iterable[str]) -> Iterator[str]:
    """``words`` with ``--options-file F`` as ``@F``, which is the same."""
    left = iter(words)
    for word in left:
        name, sign, value = word.partition("=")
        yield f"@{value if sign else next(left, '')}" if name in _OPTIONS_FILE else word


def _in_pairs(words: Iterable[str]) -> Iterator[str]:
    """``words``, each option whose value is the next word joined with it, as this package writes them."""
    left = iter(words)
    for word in left:
        name, sign, value = word.partition("=")
        if name in GCC_NAMES:
            yield f"{GCC_NAMES[name]}{value if sign else next(left, '')}"
        elif word in _TAKES_THE_NEXT:
            joint = "" if word in ("-D", "-U", "-L", "-l") else "="
            yield f"{word}{joint}{next(left, '')}"
        else:
            yield word


def _here(word: str, entry: Entry, checkout: Checkout) -> str:
    """An option with its path relative to rootdir."""
    option = next((option for option in ("-isystem", "-include", "-I") if word.startswith(option)), None)
    if option is None:
        return checkout.text(word)
    return as_nvcc_takes_it(option + checkout.path(word.removeprefix(option), entry.directory))
