"""Few shapes out of many: each one's sample is fair, whenever it was known that they are one."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pytest_compileiq.capture.inside.recorder import MOST_SAMPLES, DrawnCall, FunctionCalls
from pytest_compileiq.capture.program import Calls
from pytest_compileiq.capture.ranking import few_shapes

SIZES = (10, 20, 30)
OUTER_SEEDS = [(n, seed) for seed in range(60) for n in SIZES]  # the sizes vary first
OUTER_SIZES = [(n, seed) for n in SIZES for seed in range(60)]


def sampled(shapes, seed: int, size: int = 3) -> FunctionCalls:
    draws = random.Random(seed)
    calls = FunctionCalls(size, lambda _: None)
    for number, shape in enumerate(shapes, 1):
        calls.seen = number
        calls.add(DrawnCall(number, draws.random(), shape))
    calls.merge()
    return calls


def kept_by_size(calls: FunctionCalls, shapes) -> dict[int, list[int]]:
    """Size → the numbers of its kept calls."""
    kept: dict[int, list[int]] = {n: [] for n in SIZES}
    for n, seed in dict.fromkeys(shapes):
        kept[n] += [call.number for call in calls.kept((n, seed))]
    return kept


@pytest.mark.parametrize("shapes", [OUTER_SEEDS, OUTER_SIZES, OUTER_SEEDS[::-1]], ids=["seeds", "sizes", "backwards"])
def test_the_first_call_of_each_size_is_kept_and_every_other_is_as_likely_as_any(shapes):
    of_size = {n: [at for at, shape in enumerate(shapes, 1) if shape[0] == n] for n in SIZES}
    counts: Counter[int] = Counter()
    for seed in range(500):
        for n, numbers in kept_by_size(sampled(shapes, seed), shapes).items():
            first, *others = sorted(numbers)
            assert (first, len(others)) == (of_size[n][0], 3)
            counts.update(others)
    # Each of 59 calls in 3 of 59 runs: 25.4 of 500, with a standard deviation of 4.9.
    assert all(abs(counts[at] - 25.4) < 5 * 4.9 for numbers in of_size.values() for at in numbers[1:])


def test_shapes_that_come_apart_again_keep_a_fair_sample():
    # When the samples are full the sizes look as varied as the seeds, and are told by their kind; later they are few.
    sizes = list(range(7))
    shapes = [(n, seed % 5) for seed in range(10) for n in sizes] + [(n, seed) for n in sizes for seed in range(5, 60)]
    counts: Counter[int] = Counter()
    for seed in range(400):
        calls = sampled(shapes, seed)
        numbers = [call.number for s in {s for s in shapes if s[0] == 3} for call in calls.kept(s)]
        assert 1 <= len(numbers) <= 4
        counts.update(sorted(numbers)[1:])
    later = [counts[at] for at, (n, seed) in enumerate(shapes, 1) if n == 3 and at > len(sizes) * 10]
    assert max(later) - min(later) < 10 * (sum(later) / len(later)) ** 0.5


def test_shapes_are_made_few_as_the_ranking_makes_them():
    rng = random.Random(1)
    for _ in range(20):
        kinds = [rng.choice([3, 12, 200]) for _ in range(3)]
        shapes = [tuple(rng.randrange(kind) for kind in kinds) for _ in range(400)]
        calls = sampled(shapes, 1)
        told = [Calls("lib.so", "f", "ctypes", shape, 1, 1) for shape in dict.fromkeys(shapes)]
        assert all(shapes[call.number - 1] == each.shape for each in told for call in calls.kept(each.shape))
        for alike in few_shapes(told).values():
            assert 1 <= sum(len(list(calls.kept(each.shape))) for each in alike) <= 4


def test_shapes_beyond_those_that_are_remembered_are_kept_under_one_that_is(monkeypatch):
    monkeypatch.setattr("pytest_compileiq.capture.inside.recorder._MOST_TOLD", 50)
    calls = sampled([(n,) for n in range(500)], 1)
    assert sum(len(list(calls.kept((n,)))) for n in range(50)) == 4


def test_memory_is_bounded_while_nothing_is_known_of_the_arguments():
    dropped = []
    calls = FunctionCalls(3, dropped.append)
    most = 0
    for n in range(5000):
        calls.add(DrawnCall(n + 1, random.Random(n).random(), (n, f"float64[{n}]")))
        most = max(most, n + 1 - len(dropped))
    assert most <= MOST_SAMPLES * 4
