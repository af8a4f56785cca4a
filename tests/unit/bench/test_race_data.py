"""Races as they are committed."""

from __future__ import annotations

import pytest

import race_data
from race_runs import Moment, Race


def race(value: float) -> Race:
    return Race([Moment(1, 0.0, 1, 0.1, 0.0, 0.01), Moment(200, value, 200, 9.0, 0.0, 0.5)])


def test_recorded_seeds_stay_and_later_ones_join_them():
    joined = race_data.joined({"crc": {"ga": {0: race(-0.5)}}}, {"crc": {"ga": {0: race(-0.9), 1: race(-0.25)}}})
    assert joined == {"crc": {"ga": {0: race(-0.5), 1: race(-0.25)}}}


def test_races_of_other_engines_do_not_join():
    with pytest.raises(ValueError, match="other objectives or engines"):
        race_data.joined({"crc": {"ga": {0: race(-0.5)}}}, {"crc": {"random": {0: race(-0.5)}}})
