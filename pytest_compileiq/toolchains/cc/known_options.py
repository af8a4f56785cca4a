"""The options of gcc and clang that the tool knows: those that decide how fast a kernel runs.

The lists are append-only, so that a committed artifact's knobs stay inside the space in which they were found. They
include options that relax maths: half of real gains need these, and the test's assertions judge the results.
"""

from __future__ import annotations

import re

from pytest_compileiq.space import choice, literal
from pytest_compileiq.toolchains.cc.options import NAMEABLE
from pytest_compileiq.toolchains.option_list import NUMBER, Option, OptionList

# The probability that a knob is off in a random candidate. Options that enable something help more often than they
# hurt, options that disable something seldom help, and two thirds of all candidates should optimise more than the
# baseline.
_CHOICE_OFF = 0.6
_LEVEL_OFF = 0.34
_ENABLING_OFF = 0.5
_DISABLING_OFF = 0.85


def _level(*values: int | str) -> Option:
    return Option("-O", "[0-3sz]", choice(values, knockout_prob=_LEVEL_OFF))


def _number(name: str, *values: int) -> Option:
    return Option(name, NUMBER, choice(values, knockout_prob=_CHOICE_OFF))


def _word(name: str, *values: str) -> Option:
    return Option(name, "|".join(map(re.escape, values)), choice(values, knockout_prob=_CHOICE_OFF))


def _enabling(name: str) -> Option:
    return Option(name, "", literal("", knockout_prob=_ENABLING_OFF))


def _disabling(name: str) -> Option:
    return Option(name, "", literal("", knockout_prob=_DISABLING_OFF))


_RELAXED_MATHS = (
    _enabling("-fno-math-errno"),
    _enabling("-fno-trapping-math"),
    _enabling("-fno-signed-zeros"),
    _enabling("-fassociative-math"),
    _enabling("-freciprocal-math"),
    _enabling("-ffinite-math-only"),
    _enabling("-funsafe-math-optimizations"),
)
RELAXED_MATHS = tuple(option.name for option in _RELAXED_MATHS)

GCC = OptionList(
    "gcc",
    (
        _level(1, 2, 3, "s"),
        _word("-fvect-cost-model=", "unlimited", "dynamic", "cheap", "very-cheap"),
        _number("-mprefer-vector-width=", 128, 256, 512),
        _word("-ffp-contract=", "off", "fast"),
        _number("-falign-loops=", 1, 16, 32, 64),
        _number("-falign-functions=", 16, 32, 64),
        _word("-fira-region=", "one", "all", "mixed"),
        _word("-freorder-blocks-algorithm=", "simple", "stc"),
        _number("-finline-limit=", 50, 200, 600, 2000),
        _number("-mbranch-cost=", 0, 1, 3, 5),
        _number("--param=inline-unit-growth=", 10, 40, 100, 300),
        _number("--param=max-inline-insns-auto=", 5, 15, 30, 100),
        _number("--param=max-unroll-times=", 2, 4, 8, 16),
        _number("--param=max-unrolled-insns=", 50, 200, 400, 800),
        _number("--param=max-completely-peel-times=", 4, 16, 64),
        _number("--param=max-completely-peeled-insns=", 50, 200, 400, 800),
        _number("--param=min-vect-loop-bound=", 1, 2, 4),
        _number("--param=vect-max-peeling-for-alignment=", 0, 1, 4),
        _number("--param=vect-epilogues-nomask=", 0, 1),
        _number("--param=tree-reassoc-width=", 1, 2, 4, 8),
        _number("--param=sched-pressure-algorithm=", 1, 2),
        *_RELAXED_MATHS,
        # loops and vectors
        _enabling("-ftree-vectorize"),
        _disabling("-fno-tree-loop-vectorize"),
        _disabling("-fno-tree-slp-vectorize"),
        _enabling("-funroll-loops"),
        _enabling("-fpeel-loops"),
        _enabling("-fsplit-loops"),
        _enabling("-funswitch-loops"),
        _enabling("-fversion-loops-for-strides"),
        _enabling("-floop-interchange"),
        _enabling("-floop-unroll-and-jam"),
        _enabling("-ftree-loop-distribution"),
        _disabling("-fno-tree-loop-distribute-patterns"),
        _disabling("-fno-tree-loop-im"),
        _disabling("-fno-ivopts"),
        _enabling("-fprefetch-loop-arrays"),
        _enabling("-fvariable-expansion-in-unroller"),
        # calls
        _enabling("-finline-functions"),
        _disabling("-fno-inline-small-functions"),
        _enabling("-fno-semantic-interposition"),
        _enabling("-fno-plt"),
        _enabling("-fipa-pta"),
        _enabling("-fipa-cp-clone"),
        _disabling("-fno-ipa-sra"),
        # redundancy
        _disabling("-fno-gcse"),
        _enabling("-fgcse-after-reload"),
        _disabling("-fno-tree-pre"),
        _disabling("-fno-tree-sra"),
        # branches
        _disabling("-fno-if-conversion"),
        _enabling("-fsplit-paths"),
        _enabling("-ftracer"),
        _disabling("-fno-jump-tables"),
        # registers and order
        _enabling("-fomit-frame-pointer"),
        _enabling("-fschedule-insns"),
        _disabling("-fno-schedule-insns2"),
        _enabling("-fmodulo-sched"),
        _enabling("-flive-range-shrinkage"),
        _enabling("-frename-registers"),
    ),
    NAMEABLE,
)
CLANG = OptionList(
    "clang",
    (
        _level(1, 2, 3),
        _number("-mprefer-vector-width=", 128, 256, 512),
        _word("-ffp-contract=", "off", "on", "fast"),
        _number("-falign-loops=", 16, 32, 64),
        _number("-falign-functions=", 16, 32, 64),
        *_RELAXED_MATHS,
        _enabling("-fapprox-func"),
        _disabling("-fno-vectorize"),
        _disabling("-fno-slp-vectorize"),
        _enabling("-funroll-loops"),
        _disabling("-fno-unroll-loops"),
        _disabling("-fno-inline-functions"),
        _enabling("-fno-semantic-interposition"),
        _enabling("-fno-plt"),
        _disabling("-fno-jump-tables"),
        _enabling("-fomit-frame-pointer"),
        _enabling("-fmerge-all-constants"),
    ),
    NAMEABLE,
)
