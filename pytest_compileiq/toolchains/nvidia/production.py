"""The command that production compiles a CUDA source with, from a compilation database: its flags, without outputs.

CMake, Ninja and Bear record nvcc's commands as they record gcc's. Left out are what the plugin gives itself (outputs,
the stage, architectures) and what makes warnings errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compilation_database import Checkout, RecordedCommand, expanded
from pytest_compileiq.toolchains.cc.production import Production, launched, production_command
from pytest_compileiq.toolchains.nvidia.options import GCC_NAMES, OURS, as_nvcc_takes_it, in_one_word, respelled

_RESPONSE_FILES = {"-optf": "@", "--options-file": "@"}  # -optf F is @F
_ARCHITECTURES = re.compile(
    r"(?:-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code)=(?P<value>.*)", re.DOTALL
)
_REAL = re.compile(r"sm_\w+")
_LEFT_OUT = re.compile(
    r"--device-w|-(?:-generate-nonsystem-|-generate-)?dependenc.*|-x=cu|-?-?Werror(?:=.*)?|-?-time=.*", re.DOTALL
)


def nvcc_command(like: str, source: str, architectures: Sequence[str], place: Place) -> Production:
    """How production compiles ``source``, which is relative to rootdir, for the architectures that the marker names.

    Raises:
        MarkerError: there is no such database or command, several differ, a command cannot be used, or it compiles
            for other architectures.
    """

    def read(entry: RecordedCommand, checkout: Checkout) -> Production:
        words = list(respelled(entry.words, _RESPONSE_FILES))
        before, (compiler, *words) = launched(expanded(words, entry, checkout, place.rootdir))
        if "/" in compiler:
            compiler = str(place.rootdir / checkout.path(compiler, entry.directory))
        flags: list[str] = []
        made_for: set[str] = set()
        for word in in_one_word(respelled(words, GCC_NAMES)):
            if named := _ARCHITECTURES.fullmatch(word):
                made_for.update(_REAL.findall(named["value"]))
            elif word in ("-dc", "--device-c"):
                flags.append("-rdc=true")
            elif word.startswith("-") and not _is_left_out(word):
                flags.append(_here(word, entry, checkout))
        if other := sorted(set(architectures) - made_for):
            known = ", ".join(sorted(made_for)) or "no real architecture"
            raise MarkerError(f"its command compiles for {known}, and not for {other[0]}: name those in arch=")
        return Production(compiler, tuple(flags), tuple(before))

    return production_command(like, source, place, read)


def _is_left_out(word: str) -> bool:
    return bool(OURS.fullmatch(word.partition("=")[0]) or _LEFT_OUT.fullmatch(word) or "apply-controls" in word)


def _here(word: str, entry: RecordedCommand, checkout: Checkout) -> str:
    """An option with its path relative to rootdir."""
    option = next((option for option in ("-isystem", "-include", "-I") if word.startswith(option)), None)
    if option is None:
        return checkout.text(word)
    return as_nvcc_takes_it(option + checkout.path(word.removeprefix(option), entry.directory))
