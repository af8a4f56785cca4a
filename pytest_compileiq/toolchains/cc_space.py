"""The default search spaces of gcc and clang: the options that decide how fast a kernel runs.

The lists are append-only, so that a committed artifact's knobs stay inside the space that it was found in. What the
installed compiler does not know is left out. Options that relax maths are in: half of real gains need them, and the
test's assertions judge them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pytest_compileiq.space import Space, choice, literal
from pytest_compileiq.toolchains.cc_compiler import CcCompiler, ask

_Choices = Mapping[str, Sequence[int | str]]

_RELAXED_MATHS = (
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-freciprocal-math",
    "-ffinite-math-only",
    "-funsafe-math-optimizations",
)

_GCC_CHOICES: _Choices = {
    "-O": (1, 2, 3, "s"),
    "-fvect-cost-model=": ("unlimited", "dynamic", "cheap", "very-cheap"),
    "-mprefer-vector-width=": (128, 256, 512),
    "-ffp-contract=": ("off", "fast"),
    "-falign-loops=": (1, 16, 32, 64),
    "-falign-functions=": (16, 32, 64),
    "-fira-region=": ("one", "all", "mixed"),
    "-freorder-blocks-algorithm=": ("simple", "stc"),
    "-finline-limit=": (50, 200, 600, 2000),
    "-mbranch-cost=": (0, 1, 3, 5),
    "--param=inline-unit-growth=": (10, 40, 100, 300),
    "--param=max-inline-insns-auto=": (5, 15, 30, 100),
    "--param=max-unroll-times=": (2, 4, 8, 16),
    "--param=max-unrolled-insns=": (50, 200, 400, 800),
    "--param=max-completely-peel-times=": (4, 16, 64),
    "--param=max-completely-peeled-insns=": (50, 200, 400, 800),
    "--param=min-vect-loop-bound=": (1, 2, 4),
    "--param=vect-max-peeling-for-alignment=": (0, 1, 4),
    "--param=vect-epilogues-nomask=": (0, 1),
    "--param=tree-reassoc-width=": (1, 2, 4, 8),
    "--param=sched-pressure-algorithm=": (1, 2),
}
_GCC_SWITCHES = (
    *_RELAXED_MATHS,
    # loops and vectors
    "-ftree-vectorize",
    "-fno-tree-loop-vectorize",
    "-fno-tree-slp-vectorize",
    "-funroll-loops",
    "-fpeel-loops",
    "-fsplit-loops",
    "-funswitch-loops",
    "-fversion-loops-for-strides",
    "-floop-interchange",
    "-floop-unroll-and-jam",
    "-ftree-loop-distribution",
    "-fno-tree-loop-distribute-patterns",
    "-fno-tree-loop-im",
    "-fno-ivopts",
    "-fprefetch-loop-arrays",
    "-fvariable-expansion-in-unroller",
    # calls
    "-finline-functions",
    "-fno-inline-small-functions",
    "-fno-semantic-interposition",
    "-fno-plt",
    "-fipa-pta",
    "-fipa-cp-clone",
    "-fno-ipa-sra",
    # redundancy
    "-fno-gcse",
    "-fgcse-after-reload",
    "-fno-tree-pre",
    "-fno-tree-sra",
    # branches
    "-fno-if-conversion",
    "-fsplit-paths",
    "-ftracer",
    "-fno-jump-tables",
    # registers and order
    "-fomit-frame-pointer",
    "-fschedule-insns",
    "-fno-schedule-insns2",
    "-fmodulo-sched",
    "-flive-range-shrinkage",
    "-frename-registers",
)

_CLANG_CHOICES: _Choices = {
    "-O": (1, 2, 3),
    "-mprefer-vector-width=": (128, 256, 512),
    "-ffp-contract=": ("off", "on", "fast"),
    "-falign-loops=": (16, 32, 64),
    "-falign-functions=": (16, 32, 64),
}
_CLANG_SWITCHES = (
    *_RELAXED_MATHS,
    "-fapprox-func",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-funroll-loops",
    "-fno-unroll-loops",
    "-fno-inline-functions",
    "-fno-semantic-interposition",
    "-fno-plt",
    "-fno-jump-tables",
    "-fomit-frame-pointer",
    "-fmerge-all-constants",
)

_LISTS: Mapping[str, tuple[_Choices, Sequence[str]]] = {
    "gcc": (_GCC_CHOICES, _GCC_SWITCHES),
    "clang": (_CLANG_CHOICES, _CLANG_SWITCHES),
}

# Where relaxed maths pays, it often takes all of it at once, which a draw of one option at a time seldom meets.
_PRESETS: Sequence[Mapping[str, int | str]] = (
    {"-O": 3},
    {"-O": "s"},
    {"-O": 3, "-funroll-loops": "", **dict.fromkeys(_RELAXED_MATHS, "")},
)

# How likely a knob is off in a random candidate. What lets the compiler do more helps more often than it hurts, what
# takes something away is the rare find, and two thirds of all candidates should optimise beyond the baseline.
_CHOICE_OFF = 0.6
_LEVEL_OFF = 0.34
_ENABLING_OFF = 0.5
_DISABLING_OFF = 0.85
_ENABLING_NO = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fno-semantic-interposition", "-fno-plt")

# Without these gcc warns that -fassociative-math has no effect, and the trial takes a warning for a refusal.
_COMPANIONS = ("-fno-signed-zeros", "-fno-trapping-math")


@lru_cache(maxsize=16)
def cc_space(compiler: CcCompiler) -> Space:
    """The default space of ``compiler``, without what the installed one refuses or ignores."""
    choices, switches = _LISTS[compiler.name]
    options = [*switches, *(f"{name}{value}" for name, values in choices.items() for value in values)]
    known = set(_accepted(compiler.program, options))
    knobs = {
        name: choice(accepted, knockout_prob=_LEVEL_OFF if name == "-O" else _CHOICE_OFF)
        for name, values in choices.items()
        if (accepted := [value for value in values if f"{name}{value}" in known])
    }
    knobs |= {switch: literal("", knockout_prob=_switch_off(switch)) for switch in switches if switch in known}
    presets = ({name: value for name, value in preset.items() if f"{name}{value}" in known} for preset in _PRESETS)
    return replace(Space.from_mapping(knobs), presets=tuple(filter(None, presets)))


def _switch_off(switch: str) -> float:
    disables = switch.startswith("-fno-") and switch not in _ENABLING_NO
    return _DISABLING_OFF if disables else _ENABLING_OFF


def _accepted(program: str, options: Sequence[str]) -> list[str]:
    """Those of ``options`` that the compiler takes without a warning: one run when it takes all, else by halving."""
    if not options:
        return []
    trial = [program, "-Werror", "-O2", *_COMPANIONS, *options, "-S", "-x", "c", os.devnull, "-o", "-"]
    if ask(trial).returncode == 0:
        return list(options)
    if len(options) == 1:
        return []
    half = len(options) // 2
    return _accepted(program, options[:half]) + _accepted(program, options[half:])
