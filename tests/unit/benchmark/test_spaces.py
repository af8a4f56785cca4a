"""The spaces that a marker names, and what somebody meant who named another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import BuildResult, Compiler
from pytest_compileiq.space import Space, choice, literal
from pytest_compileiq.toolchains.base import Builder

CONFIGS = Space.from_mapping({"config": choice(["A=1", "A=2"])})


class Bare(Builder):
    """One of which nothing is asked but what a compiler without anything of the kind answers."""

    compiler = Compiler("bare", "1", "bare 1", ("bare",))


Bare.__abstractmethods__ = frozenset()


class Offering(Bare):
    spaces = {"autotune": lambda: CONFIGS}  # noqa: RUF012 - read only

    def __init__(self, **others) -> None:
        self.__dict__ |= others

    def option_space(self):
        return Space.from_mapping({"-O": choice([1, 2])})

    def remarks(self, built):
        return [f"made in {built.seconds} s"]


def benchmark(space: object, builder: object) -> TunedBenchmark:
    here = Path()
    return TunedBenchmark("t.py::t", SimpleNamespace(space=space, where=()), builder, None, print, (), here, here)


def test_a_toolchain_has_no_clock_that_it_does_not_name():
    with pytest.raises(NotImplementedError):
        _ = Bare().clock


def test_a_toolchain_s_own_space_is_named_and_joined_like_any_other():
    space = benchmark(["options", "autotune"], Offering()).space
    assert [gene.name for gene in space.genes] == ["-O", "config"]


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        (
            Offering(),
            r"'autotuned' \(did you mean 'autotune'\?\): expected a dict of knobs, 'default', 'options', 'autotune', Ptx",
        ),
        (Bare(), r"space='autotuned': expected a dict of knobs, 'default', 'options', PtxasSearchSpace\(\)"),
    ],
)
def test_an_unknown_space_names_those_that_there_are(builder, said):
    with pytest.raises(MarkerError, match=said):
        _ = benchmark("autotuned", builder).space


class Reading(Bare):
    """Says which macros are looked for in its sources."""

    baseline_params: Mapping[str, int] = {}

    def sources_with(self, controls):
        return {}

    def why_without_effect(self, *probes):
        return f"looked for {sorted(probes[0])}"


def test_a_group_s_key_is_a_name_and_neither_an_option_nor_a_macro():
    space = {"-Dgroup": {"-funroll-loops": literal("", 0.5)}, "-DTILE=": choice([8, 16])}
    grouped = benchmark(space, Reading())
    assert [gene.name for gene in grouped._own_options] == ["-funroll-loops", "-DTILE="]
    assert grouped.idle_macro() == "looked for ['-DTILE=']"


class Unclassed(Bare):
    compiler = SimpleNamespace(name="opt")


class Classing(Offering):
    """As ``Offering``, with options of two classes; ``-O`` has values of both."""

    option_classes = ("value-safe", "order")
    compiler = SimpleNamespace(name="cc")

    def default_space(self):
        return Space.from_mapping({"-O": choice([1])})

    def space_with(self, base, classes):
        levels = [*([1] if base else []), *([2] if "order" in classes else [])]
        return Space.from_mapping({"-O": choice(levels)})


@pytest.mark.parametrize(
    ("asked", "levels"),
    [
        ("order", (2,)),
        (["default", "order"], (1, 2)),
        (["order", "options"], (1, 2)),
        (["order", {"own": choice([1, 2])}], (2,)),
    ],
)
def test_a_class_is_a_space_of_its_own_and_one_with_the_default_beside_it(asked, levels):
    space = benchmark(asked, Classing()).space
    assert space.genes[0].values == levels and [gene.name for gene in space.genes].count("-O") == 1


def test_a_class_of_which_there_is_no_option_names_those_that_there_are():
    with pytest.raises(MarkerError, match=r"space='opaque': cc has no option of this class .* it has 'value-safe', 'o"):
        _ = benchmark(["default", "opaque"], Classing()).space
    with pytest.raises(MarkerError, match=r"space='order': opt has no option .* its options have no classes here"):
        _ = benchmark("order", Unclassed()).space


def test_a_misspelt_class_is_answered_with_the_nearest():
    with pytest.raises(MarkerError, match=r"space='relaxed-math' \(did you mean 'relaxed-maths'\?\)"):
        benchmark(["default", "relaxed-math"], Classing()).check_space()
    benchmark(["default", "relaxed-maths"], Classing()).check_space()


def test_what_a_toolchain_says_of_a_build_is_handed_on():
    built = BuildResult(Path(), {}, {}, "", 3.0)
    assert benchmark(None, Offering()).remarks(built) == ("made in 3.0 s",)
    assert benchmark(None, Bare()).remarks(built) == ()
