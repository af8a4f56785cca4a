"""Engines that pick: what is built, offered, measured, told and journalled, and that a search of them goes on."""

from __future__ import annotations

import pytest

from pytest_compileiq import choice, minimize
from pytest_compileiq.engines.base import Built, Told
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.asking import Costs
from pytest_compileiq.search.loop import CannotResume, Search
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool
from pytest_compileiq.workers.pool import EvaluationFailed

SPACE = {"-p": choice(list(range(40)))}
CODE = FakeBuilder(lambda knobs: {"kernel": "x" * int(knobs.get("-p", 0))})


def seconds(controls) -> float:
    return 1e-3 * (1 + controls.knobs.get("-p", 0) / 100) if controls else 1e-3


class Smallest:
    """Proposes numbers in order, thrice as many as are wanted, and picks the smallest code."""

    def __init__(self, numbers) -> None:
        self.left = list(numbers)
        self.allowed: list[int] = []
        self.built: list[list[Built]] = []
        self.told: list[list[Told]] = []

    def ask(self, n):
        raise AssertionError("it is asked for proposals")

    def propose(self, n, most):
        self.allowed.append(most)
        most = min(3 * n, most)
        batch, self.left = self.left[:most], self.left[most:]
        return [Candidate({"-p": number}) for number in batch]

    def pick(self, built, n):
        self.built.append(list(built))
        new = [place for place, each in enumerate(built) if not each.known]
        return sorted(new, key=lambda place: built[place].features["code_bytes"])[:n]

    def tell(self, results):
        self.told.append(list(results))

    @property
    def measured(self) -> list[list[int]]:
        return [[told.candidate.knobs["-p"] for told in batch] for batch in self.told]


@pytest.fixture
def picking(searching):
    def run(
        engine, *, budget=4, builder=CODE, fresh=True, marker=None, pool=None, build_s=0.0, measurement_s=1.0
    ) -> Search:
        pool = pool or FakePool(seconds=seconds)

        def clock() -> float:
            blocks = sum(what == "block" for what, *_ in pool.asked)
            return build_s * len(builder.built) + measurement_s * blocks

        marker = {"space": SPACE, **(marker or {})}
        return searching(engine, pool, builder, budget=budget, fresh=fresh, marker=marker, clock=clock)

    return run


def test_more_is_built_than_measured_and_what_was_picked_is_told_with_its_features(picking):
    engine = Smallest([9, 8, 7, 6, 5, 4, 3, 2, 1, 30, 31, 32])
    search = picking(engine)
    assert engine.measured == [[1, 2, 3, 4]]
    assert all(told.features["code_bytes"] > 0 for told in engine.told[0])
    assert (search.tally.evaluations, search.tally.built, search.tally.duplicates) == (4, 12, 0)


def test_known_code_is_marked_and_so_is_the_second_of_two(picking):
    engine = Smallest([0, 3, 3, 4])
    picking(engine)
    assert [(built.candidate.knobs["-p"], built.known) for built in engine.built[0]] == [
        (0, True), (3, False), (3, True), (4, False),
    ]  # fmt: skip
    assert engine.measured == [[3, 4]]


def test_where_all_is_known_the_budget_still_ends_the_search(picking):
    engine = Smallest([5] * 1000)
    search = picking(engine, budget=10)
    assert (search.tally.evaluations, search.tally.duplicates, len(search.scored)) == (10, 9, 1)
    assert search.is_over


def test_failed_builds_are_evaluations_by_their_share_and_leave_room_for_one_that_builds(picking):
    engine = Smallest(range(1, 13))
    refuses = FakeBuilder(CODE.code, {f"-p{number}\n": "no" for number in range(2, 13)})
    search = picking(engine, builder=refuses)
    assert [told.failure for told in engine.told[0]] == [None, "compile", "compile", "compile"]
    assert search.tally.invalid == {"compile": 3}


def test_a_search_that_stopped_goes_on_with_what_it_had_picked(picking):
    numbers = list(range(36, 0, -1))
    whole, first, second = Smallest(numbers), Smallest(numbers), Smallest(numbers)
    picking(whole, budget=12)
    picking(first, budget=12, pool=FakePool(seconds=seconds, interrupt_at=6))
    stopped = [batch for batch in first.measured if batch]
    search = picking(second, budget=12, fresh=False)
    assert len(stopped) < len(whole.measured)
    assert second.measured == whole.measured
    assert [told.features for batch in second.told for told in batch] == [
        told.features for batch in whole.told for told in batch
    ]
    assert (search.tally.evaluations, search.tally.built) == (12, 36)


@pytest.mark.parametrize(("build_s", "then"), [(0.0, 16), (0.5, 16), (0.6, 12), (1.0, 12), (1.1, 8), (60.0, 8)])
def test_what_is_passed_over_takes_no_longer_to_build_than_what_is_picked_takes(picking, build_s, then):
    engine = Smallest(range(36, 0, -1))
    picking(engine, budget=12, build_s=build_s)
    assert engine.allowed == [16, then, then]


def test_where_nothing_could_be_measured_yet_twice_as_much_is_built(picking):
    engine = Smallest(range(1, 37))
    refuses = FakeBuilder(CODE.code, {f"-p{number}\n": "no" for number in range(1, 13)})
    picking(engine, budget=8, builder=refuses, build_s=0.1)
    assert engine.allowed == [16, 8]


def test_a_search_goes_on_with_as_many_builds_as_it_was_allowed_though_they_are_faster_now(picking):
    numbers = list(range(36, 0, -1))
    first, second = Smallest(numbers), Smallest(numbers)
    picking(first, budget=12, build_s=1.1)
    picking(second, budget=12, build_s=0.0, fresh=False)
    assert second.allowed == first.allowed == [16, 8, 8]
    assert second.measured == first.measured


def test_an_engine_that_proposes_otherwise_cannot_go_on(picking):
    picking(Smallest(range(36, 0, -1)), budget=12, pool=FakePool(seconds=seconds, interrupt_at=6))
    with pytest.raises(CannotResume):
        picking(Smallest(range(1, 36)), budget=12, fresh=False)


class Asks(Smallest):
    """The same, which may also be asked."""

    def ask(self, n):
        batch, self.left = self.left[:n], self.left[n:]
        return [Candidate({"-p": number}) for number in batch]

    def propose(self, n, most):
        raise AssertionError("every build is an evaluation here")


def test_where_nothing_is_timed_every_build_is_evaluated(picking):
    engine = Asks([3, 4, 5])
    search = picking(engine, marker={"objectives": [minimize("code_bytes")]})
    assert engine.measured == [[3, 4, 5]]
    assert search.tally.built == 0 and not engine.told[0][0].features


def test_an_objective_is_no_feature(picking):
    engine = Smallest([3, 4])
    engine.pick = lambda built, n: engine.built.append(list(built)) or [0]
    picking(engine, marker={"objectives": [minimize("runtime"), minimize("code_bytes")]})
    assert all("code_bytes" not in built.features for built in engine.built[0])


def test_the_start_of_the_worker_is_no_measurement_s_cost():
    now, costs = [0.0], Costs(lambda: now[0])
    with costs.building(4):
        now[0] += 4.0
    for seconds_of_it in (60.0, 0.5, 0.5):
        with costs.measuring():
            now[0] += seconds_of_it
    with pytest.raises(EvaluationFailed), costs.measuring():
        now[0] += 60.0
        raise EvaluationFailed("tuned", "timeout", "a call hangs")
    assert (costs.builds_for_each(), costs.measurements_s) == (2, [60.0, 0.5, 0.5])
