"""The search spaces of gcc and clang: the options that the tool knows, by class, that the installed compiler takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pytest_compileiq.model import ControlClass, KnobValue
from pytest_compileiq.rules.classes import in_order
from pytest_compileiq.space import Space, choice
from pytest_compileiq.system.process import Finished
from pytest_compileiq.toolchains.cc.compiler import CcCompiler
from pytest_compileiq.toolchains.cc.flags import BaselineFlags
from pytest_compileiq.toolchains.cc.known_options import BY_COMPILER, RELAXED_MATHS
from pytest_compileiq.toolchains.options import Option
from pytest_compileiq.toolchains.steps import ask

# What an expert would set by hand, in spaces that hold its class. A gain from relaxed maths often needs all of its
# options at once, which independent draws seldom give.
_VECTORS: Mapping[str, int | str] = {"-O": 3, "-funroll-loops": "", "-fno-math-errno": "", "-fno-trapping-math": ""}
_PRESETS: Sequence[tuple[ControlClass, Mapping[str, int | str]]] = (
    ("value-safe", {"-O": 3}),
    ("value-safe", {"-O": "s"}),
    ("environment", _VECTORS),
    ("relaxed-maths", {**_VECTORS, **dict.fromkeys(RELAXED_MATHS, "")}),
)

# Without these gcc warns that -fassociative-math has no effect, and the trial treats a warning as a refusal.
_COMPANIONS = ("-fno-signed-zeros", "-fno-trapping-math")


@lru_cache(maxsize=64)
def cc_space(
    compiler: CcCompiler,
    baseline: BaselineFlags,
    classes: frozenset[ControlClass],
    without: frozenset[str] = frozenset(),
) -> Space:
    """The options of ``compiler`` that have one of ``classes`` behind ``baseline``, and that take nothing of it back.

    Args:
        without: names of options to leave out.
    """
    knobs = {}
    for option, by_class in _left_open(compiler, baseline):
        values = [value for value, own in by_class.items() if own in classes]
        if option.name not in without and not all(baseline.says(f"{option.name}{value}") for value in values):
            knobs[option.name] = choice(values, knockout_prob=option.drawn.knockout_prob)
    if not knobs:
        return Space(())
    presets = (
        {name: value for name, value in preset.items() if name in knobs and value in knobs[name].values}
        for needed, preset in _PRESETS
        if needed in classes
    )
    behind = {name: value for name, knob in knobs.items() for value in knob.values if baseline.says(f"{name}{value}")}
    space = replace(Space.from_mapping(knobs), presets=tuple(filter(None, presets)))
    return replace(space, compiler=compiler.name, behind=behind)


def cc_classes(compiler: CcCompiler, baseline: BaselineFlags) -> tuple[ControlClass, ...]:
    """The classes that options of ``compiler`` have behind ``baseline``, narrowest first."""
    return in_order(own for _, by_class in _left_open(compiler, baseline) for own in by_class.values())


@lru_cache(maxsize=64)
def _left_open(
    compiler: CcCompiler, baseline: BaselineFlags
) -> Sequence[tuple[Option, Mapping[KnobValue, ControlClass]]]:
    """The options that take nothing of ``baseline`` back, each with its values and their classes."""
    return [
        (option, {value: baseline.widened(option.control_class, f"{option.name}{value}") for value in values
                  if not baseline.undone_by(f"{option.name}{value}")})
        for option, values in _taken(compiler)
    ]  # fmt: skip


@lru_cache(maxsize=16)
def _taken(compiler: CcCompiler) -> Sequence[tuple[Option, Sequence[KnobValue]]]:
    """The known options that the installed version neither refuses nor ignores, each with the values that it takes."""
    options = BY_COMPILER[compiler.name].known
    taken = set(
        _accepted(compiler.program, [f"{option.name}{value}" for option in options for value in option.drawn.values])
    )
    each = (
        (option, [value for value in option.drawn.values if f"{option.name}{value}" in taken]) for option in options
    )
    return [(option, values) for option, values in each if values]


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
