"""Half of every eight processes, whatever the seed, and nothing that follows their numbers."""

from __future__ import annotations

import pytest

from pytest_compileiq.proof.blocks import Deal


@pytest.mark.parametrize("devices", [1, 2])
def test_each_eight_of_a_device_are_dealt_in_halves_that_chance_places(devices):
    places = [0] * 8
    for seed in range(400):
        for device in range(devices):
            dealt = [Deal(seed, device + devices * turn, devices).half("outer") for turn in range(16)]
            assert sum(dealt[:8]) == sum(dealt[8:]) == 4
            places = [count + one for count, one in zip(places, dealt[:8], strict=True)]
    assert all(abs(count / (400 * devices) - 0.5) < 0.12 for count in places)


def test_blocks_and_what_is_dealt_are_apart():
    dealt = {(of, what): [Deal(1, number, of=of).half(what) for number in range(32)] for of in "ab" for what in "xy"}
    assert len(set(map(tuple, dealt.values()))) == 4
