"""The sets of options that are tried first: each beside the earlier ones, and none that a kernel would choose itself."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from learn_portfolio import KINDS, SETS, SPACE, Tried, chosen, tried, write
from pytest_compileiq.space import OFF

EMPTY = (OFF,) * len(SPACE.genes)


def option(place: int) -> tuple[int, ...]:
    return (*EMPTY[:place], 0, *EMPTY[place + 1 :])


def test_each_set_is_chosen_for_what_the_earlier_ones_leave():
    points = [option(place) for place in range(4)]
    shares = np.array([
        [0.8, 1.0, 0.0, 0.0],
        [0.8, 0.9, 0.0, 0.1],
        [0.0, 0.0, 0.6, 0.0],
    ])  # fmt: skip
    known = Tried(np.array(["a", "b", "c"]), points, np.array(["a", "b", "c", "c"]), shares)
    assert chosen(known, size=3) == [SPACE.knobs(points[number]) for number in (1, 2, 0)]
    # Neither kernel c nor what was its best has a say.
    assert chosen(known, without=["c"], size=2) == [SPACE.knobs(points[number]) for number in (1, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_recorded_is_a_share_of_the_way_and_its_choice_can_be_read(kind, tmp_path):
    known = tried(kind)
    assert known.shares.shape == (len(known.families), len(known.points)) and len(known.families) > 20
    assert known.shares.min() == 0 and (known.shares.max(axis=1) == 1).all()
    sets = chosen(known)
    assert len(sets) == SETS
    write(tmp_path / "sets", {kind: sets})
    with (tmp_path / "sets").open() as stream:
        rows = [(int(row["place"]), row["knob"], row["value"]) for row in csv.DictReader(stream)]
    assert rows == [(place, name, str(value)) for place, knobs in enumerate(sets) for name, value in knobs.items()]
