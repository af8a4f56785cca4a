"""The default search spaces of gcc and clang: the options that the tool knows and the installed compiler takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pytest_compileiq.space import Space, choice
from pytest_compileiq.system.process import Finished
from pytest_compileiq.toolchains.cc.compiler import CcCompiler
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC, RELAXED_MATHS
from pytest_compileiq.toolchains.commands import ask

_LISTS = {"gcc": GCC, "clang": CLANG}

# A gain from relaxed maths often needs all of its options at once, which independent draws seldom give.
_PRESETS: Sequence[Mapping[str, int | str]] = (
    {"-O": 3},
    {"-O": "s"},
    {"-O": 3, "-funroll-loops": "", **dict.fromkeys(RELAXED_MATHS, "")},
)

# Without these gcc warns that -fassociative-math has no effect, and the trial treats a warning as a refusal.
_COMPANIONS = ("-fno-signed-zeros", "-fno-trapping-math")


@lru_cache(maxsize=16)
def cc_space(compiler: CcCompiler) -> Space:
    """The default space of ``compiler``, without options that the installed version refuses or ignores."""
    options = _LISTS[compiler.name].known
    known = set(
        _accepted(compiler.program, [f"{option.name}{value}" for option in options for value in option.drawn.values])
    )
    knobs = {
        option.name: choice(accepted, knockout_prob=option.drawn.knockout_prob)
        for option in options
        if (accepted := [value for value in option.drawn.values if f"{option.name}{value}" in known])
    }
    presets = ({name: value for name, value in preset.items() if f"{name}{value}" in known} for preset in _PRESETS)
    return replace(Space.from_mapping(knobs), presets=tuple(filter(None, presets)))


def refused(command: Sequence[str], options: Sequence[str], language: str, rootdir: Path) -> tuple[str, str] | None:
    """The first of ``options`` that the compiler refuses, and what it prints.

    None if it takes all, or refuses an empty file without them too, which tells nothing about them.

    Args:
        command: the compiler and the baseline's flags; ``options`` come after.
        language: as ``-x`` names it.
        rootdir: where the compiler runs.
    """

    def answer(tried: Sequence[str]) -> Finished:
        # Without warnings: -Werror in the baseline's flags is about its sources.
        return ask([*command, *tried, "-w", "-S", "-x", language, os.devnull, "-o", os.devnull], cwd=rootdir)

    def first(tried: Sequence[str]) -> tuple[str, str] | None:
        finished = answer(tried)
        if finished.returncode == 0:
            return None
        if len(tried) == 1:
            return tried[0], finished.output
        half = len(tried) // 2
        return first(tried[:half]) or first(tried[half:])

    refusal = first(options) if options else None
    return None if refusal is None or answer(()).returncode != 0 else refusal


def _accepted(program: str, options: Sequence[str]) -> list[str]:
    """Those of ``options`` that the compiler takes without a warning: one run if it takes all, else by halving."""
    if not options:
        return []
    trial = [program, "-Werror", "-O2", *_COMPANIONS, *options, "-S", "-x", "c", os.devnull, "-o", "-"]
    if ask(trial).returncode == 0:
        return list(options)
    if len(options) == 1:
        return []
    half = len(options) // 2
    return _accepted(program, options[:half]) + _accepted(program, options[half:])
