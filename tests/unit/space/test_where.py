"""Bounds of a space: what a predicate reads and answers, how much it leaves, and that little is still found."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Predicate, Space, Where, choice, literal
from pytest_compileiq.space import range as steps

TILES = Space.from_mapping({"-DX=": choice([8, 16, 32, 64]), "-DY=": choice([8, 16, 32, 64]), "-f": literal("", 0.5)})
FLAGS = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(24)})


def where(*calls, **defaults) -> Where:
    return Where(
        tuple(Predicate(call, f"text {number}", f"id {number}") for number, call in enumerate(calls)), defaults
    )


def bounded(space: Space, *calls, **defaults) -> Space:
    return space.bounded(where(*calls, **defaults))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda k: k["-DXX="] < 3, r"^where= \(text 0\): the space has no knob '-DXX=' \(did you mean '-DX='\?\): expected -DX=, -DY=, -f$"),
        (lambda k: k.get("-DZ=", 1) < 3, "the space has no knob '-DZ='"),
        (lambda k: "-DZ=" in k, "the space has no knob '-DZ='"),
        (lambda k: k["-DX="] < 64 or k["-f"] == "", r"reads the knob '-f', which is off in some .* k.get\('-f', default\)"),
        (lambda k: k["-DX="] // (k["-DY="] - 8) > 0, r"failed on \{'-DX=': \d+, '-DY=': 8\}: ZeroDivisionError: "),
        (lambda k: k["-DX="] - 8, r"gave 56 for \{'-DX=': 64\}: expected True or False"),
        (lambda k: None, r"gave None for \{\}: expected True or False"),
        (lambda k: k["-DX="] > 64, "^where= leaves nothing of the space$"),
    ],
)  # fmt: skip
def test_a_predicate_that_cannot_be_judged_is_one_sentence(call, said):
    with pytest.raises(MarkerError, match=said) as refused:
        bounded(TILES, call)
    assert len(str(refused.value).splitlines()) == 1


def test_an_error_that_the_predicate_catches_hides_no_misspelt_name():
    def careless(knobs):
        try:
            return knobs["-DZ="] < 3
        except Exception:
            return True

    with pytest.raises(MarkerError, match="the space has no knob '-DZ='"):
        bounded(TILES, careless)


def test_numpy_s_bools_are_bools():
    assert bounded(TILES, lambda k: np.int64(k["-DX="]) <= np.int64(16)).size == 16


def test_what_is_left_is_counted_whatever_is_not_read():
    space = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(50)} | {"n": steps(1, 1000)})
    small = bounded(space, lambda k: k["n"] % 100 == 0)
    assert small.size == 10 * 2**50
    assert small.size_text == "1.1e+16 points of 1.1e+18 (where=)"
    assert bounded(TILES, lambda k: k["-DX="] * k["-DY="] <= 1024).size_text == "26 points of 32 (where=)"


def test_what_cannot_be_counted_is_estimated():
    half = bounded(FLAGS, lambda k: len(k) % 2 == 0)
    assert re.fullmatch(r"about 8,[2-6]00,000 points of 16,777,216 \(where=\)", half.size_text)
    assert half.size == 2**24, "a search ends at a bound that holds"
    long = Space.from_mapping({"n": steps(0, 10**9), "m": steps(0, 10**9)})
    assert re.fullmatch(
        r"about [45]\.\de\+17 points of 1\.0e\+18 \(where=\)", bounded(long, lambda k: k["n"] < k["m"]).size_text
    )


def test_little_that_is_left_is_drawn_all_the_same():
    rng = np.random.default_rng(1)
    one = bounded(Space.from_mapping({name: steps(0, 99) for name in "abc"}), lambda k: k["a"] == k["b"] == k["c"] == 7)
    assert {one.sample(rng), one.sample(rng, 0.1), *one.points()} == {(7, 7, 7)}
    few = bounded(FLAGS, lambda k: len(k) <= 4)  # one of a thousand draws
    drawn = {few.sample(rng) for _ in range(40)}
    assert all(few.allows(point) for point in drawn)
    assert len(drawn) > 25


def test_draws_keep_the_space_s_own_probabilities():
    space = Space.from_mapping({"-a": literal("", 0.9), "-b": choice([1, 2, 3, 4]), "-c": literal("", 0.5)})
    held = bounded(space, lambda k: k["-b"] != 4, lambda k: "-a" not in k or k["-b"] > 1)
    rng = np.random.default_rng(1)
    drawn = np.array([held.sample(rng) for _ in range(3000)])
    rejected = np.array([point for point in (space.sample(rng) for _ in range(6000)) if held.allows(point)])
    assert (drawn >= 0).mean(axis=0) == pytest.approx((rejected >= 0).mean(axis=0), abs=0.03)
    assert np.bincount(drawn[:, 1]) / len(drawn) == pytest.approx(np.bincount(rejected[:, 1]) / len(rejected), abs=0.03)


def test_a_bound_that_hardly_anything_satisfies_is_refused_when_the_search_begins():
    nearly = bounded(FLAGS, lambda k: "".join(k) == "-f3-f5-f8-f13-f21" and k["-f3"] != "")
    with pytest.raises(MarkerError, match=r"where= leaves nothing of the space that 4,000 random draws could find"):
        _ = nearly.size


def test_a_default_stands_in_for_a_knob_that_is_off():
    space = Space.from_mapping({"tile": choice([8, 16, 32], 0.5), "unroll": choice([1, 2])})
    held = bounded(space, lambda k: k["tile"] * k["unroll"] <= 32, tile=64)
    knobs = [held.knobs(point) for point in held.points()]
    assert {knob["tile"] * knob["unroll"] for knob in knobs} == {8, 16, 32}
    assert {"unroll": 1} not in knobs


def test_every_knob_that_is_on_is_seen_by_who_looks_at_all():
    seen = []
    held = bounded(TILES, lambda k: bool(seen.append(dict(k)) or True))
    assert held.size == 32
    assert {"-DX=": 8, "-DY=": 64, "-f": ""} in seen and {"-DX=": 64, "-DY=": 8} in seen


def test_what_lies_outside_is_refused_with_the_predicate_and_never_a_seed_nor_a_preset():
    space = replace(bounded(TILES, lambda k: k["-DX="] <= 16, lambda k: k["-DY="] >= 16), presets=(
        {"-DX=": 64, "-DY=": 16}, {"-DX=": 8, "-DY=": 64}))  # fmt: skip
    assert space.why_not({"-DX=": 8, "-DY=": 8}) == "where= refuses it: text 1"
    assert space.why_not({"-DX=": 8, "-DY=": 16}) is None
    seeds = [Candidate({"-DX=": 16, "-DY=": 16}), Candidate({"-DX=": 32, "-DY=": 64})]
    assert Brief(space, 1, seeds=seeds).seed_points() == [(1, 1, -1), (0, 3, -1)]


def test_a_merged_space_is_bounded_as_its_parts_are():
    level = Space.from_mapping({"-O": choice([1, 2, 3])})
    merged = Space.merge(bounded(TILES, lambda k: k["-DX="] == 8), bounded(level, lambda k: k["-O"] > 1))
    assert merged.size == 1 * 4 * 2 * 2
    assert bounded(merged, lambda k: k["-O"] * k["-DX="] > 16).size == 8


def test_the_digest_holds_the_predicates_and_is_what_it_was_without_any():
    space = Space.from_mapping({"-O": choice([1, 2, 3]), "g": {"-f": literal("", 0.5)}})
    assert space.digest == "7d0c64d5fda1082347d6836c1a1bc3ed9f2524c3b6f9be4ba82d0b44831c2c49"  # as artifacts record it
    one, other = (space.bounded(Where((Predicate(lambda k: True, "same text", name),))) for name in ("one", "other"))
    assert len({space.digest, one.digest, other.digest}) == 3
