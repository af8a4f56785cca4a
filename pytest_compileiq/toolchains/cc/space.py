"""The search spaces of gcc and clang: the options that the tool knows, by class, that the installed compiler takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """The options of ``compiler`` with one of ``classes`` behind ``baseline``, of which they take nothing back."""
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

    def answer(tried: Sequence[str]) -> Finished:
        return ask([compiler.program, "-Werror", "-O2", *_COMPANIONS, *tried, "-S", "-x", "c", os.devnull, "-o", "-"])

    options = BY_COMPILER[compiler.name].known
    spelled = [f"{option.name}{value}" for option in options for value in option.drawn.values]
    not_taken = {option for option, _ in _refusals(spelled, answer)}
    each = (
        (option, [value for value in option.drawn.values if f"{option.name}{value}" not in not_taken])
        for option in options
    )
    return [(option, values) for option, values in each if values]


_IN_EFFECT = re.compile(r"^  (--param=[\w-]+=|-[\w-]+=?)(?:<[^>]*>|\[[^\]]*\])?\s+(\S+)$", re.MULTILINE)


def is_in_effect(program: str, option: str, flags: Sequence[str]) -> bool:
    """Whether ``program``, a gcc, says that ``flags`` imply ``option``."""
    name, equals, value = option.rpartition("=")
    if not equals:
        name, value = re.sub("^(-[fm])no-", r"\1", option), "[enabled]"
        value = value if name == option else "[disabled]"
    shown = _in_effect(program, tuple(flag for flag in flags if flag.startswith(("-O", "-f", "-m", "--param"))))
    return shown.get(name + equals) == value


@lru_cache(maxsize=1024)
def _in_effect(program: str, flags: tuple[str, ...]) -> Mapping[str, str]:
    answer = ask([program, *flags, "-Q", *(f"--help={what}" for what in ("optimizers", "params", "target"))])
    return dict(_IN_EFFECT.findall(answer.output)) if answer.returncode == 0 else {}


def refused(command: Sequence[str], options: Sequence[str], language: str, rootdir: Path) -> tuple[str, str] | None:
    """The first of ``options`` that the compiler refuses behind ``command``, and its output; None if it takes all."""

    def answer(tried: Sequence[str]) -> Finished:
        # Without warnings: -Werror in the baseline's flags is about its sources.
        return ask([*command, *tried, "-w", "-S", "-x", language, os.devnull, "-o", os.devnull], cwd=rootdir)

    refusal = next(_refusals(options, answer), None)
    # An empty file that is refused without them too tells nothing about the options.
    return None if refusal is None or answer(()).returncode != 0 else refusal


def _refusals(options: Sequence[str], answer: Callable[[Sequence[str]], Finished]) -> Iterator[tuple[str, str]]:
    """The options that the compiler refuses, each with its output: one run if it takes all, else by halving."""
    if not options or (finished := answer(options)).returncode == 0:
        return
    if len(options) == 1:
        yield options[0], finished.output
        return
    half = len(options) // 2
    yield from _refusals(options[:half], answer)
    yield from _refusals(options[half:], answer)
