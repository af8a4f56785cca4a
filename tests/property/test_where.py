"""A bounded space holds exactly the points that its predicates allow, whichever way it is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.space import Predicate, Space, Where, choice, literal
from pytest_compileiq.space import range as steps
from pytest_compileiq.space.constraints import Judge
from pytest_compileiq.space.shape import Region, Shape

QUICK = settings(max_examples=30)
knockouts = st.sampled_from([None, 0.3, 0.9])
parameters = st.one_of(
    st.builds(lambda end, off: steps(0, end, knockout_prob=off), st.integers(0, 2), knockouts),
    st.builds(lambda off: literal("", knockout_prob=off), knockouts),
    st.builds(choice, st.permutations(["x", "y"]), knockouts),
)


@st.composite
def spaces(draw) -> Space:
    """Up to eight knobs, in groups within groups."""
    names = iter("abcdefghi")
    mapping = {next(names): draw(parameters) for _ in range(draw(st.integers(0, 2)))}
    for group in range(draw(st.integers(0 if mapping else 1, 2))):
        inside = {next(names): draw(parameters) for _ in range(draw(st.integers(1, 2)))}
        if draw(st.booleans()):
            inside[f"inner{group}"] = {next(names): draw(parameters)}
        mapping[f"group{group}"] = inside
    return Space.from_mapping(mapping)


def any_predicate(names: list[str], share: int) -> Callable[[Mapping], bool]:
    """A predicate that reads ``names``, the later ones only for some values of the first; it allows ``share`` of 8."""

    def holds(knobs: Mapping) -> bool:
        read = [knobs.get(names[0])]
        if read[0] != 0:
            read += [knobs.get(name) for name in names[1:]]
        return hashlib.sha256(repr(read).encode()).digest()[0] % 8 < share

    return holds


@st.composite
def bounds(draw, space: Space) -> list[Callable[[Mapping], bool]]:
    names = [gene.name for gene in space.genes if gene.kind != "switch"]
    read = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    return draw(st.lists(st.builds(any_predicate, read, st.integers(1, 7)), min_size=1, max_size=2))


def where(*calls: Callable[[Mapping], object]) -> Where:
    return Where(tuple(Predicate(call, "…", str(number)) for number, call in enumerate(calls)))


@QUICK
@given(st.data())
def test_size_points_draws_and_membership_agree_with_the_predicates(data):
    space = data.draw(spaces())
    calls = data.draw(bounds(space))
    allowed = {point for point in space.points() if all(call(space.knobs(point)) for call in calls)}
    if not allowed:
        with pytest.raises(MarkerError, match="where= leaves nothing of the space"):
            space.bounded(where(*calls))
        return
    bounded = space.bounded(where(*calls))
    points = list(bounded.points())
    assert (set(points), len(points), bounded.size) == (allowed, len(allowed), len(allowed))
    rng = np.random.default_rng(1)
    assert {bounded.sample(rng, density) for density in (None, 0.5) for _ in range(20)} <= allowed
    for point in islice(space.points(), 200):
        knobs = space.knobs(point)
        assert bounded.allows(point) == (point in allowed) == (bounded.why_not(knobs) is None)


@QUICK
@given(st.data())
def test_what_is_too_large_to_enumerate_is_estimated_and_drawn_from_all_the_same(data):
    space = data.draw(spaces())
    calls = data.draw(bounds(space))
    allowed = {point for point in space.points() if all(call(space.knobs(point)) for call in calls)}
    judge = Judge(space.genes, where(*calls))
    region = Region.of(Shape(space.genes), judge, steps=1, descents=400)
    if not allowed:
        assert not region.boxes
        return
    if not region.exact:  # unless the first verdict was the last
        assert region.size == pytest.approx(len(allowed), rel=0.5, abs=2)
    rng = np.random.default_rng(1)
    assert {region.draw(rng) for _ in range(20)} <= allowed
