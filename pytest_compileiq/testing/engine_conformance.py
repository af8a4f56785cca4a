"""The conformance suite for third-party engines: subclass it, and pytest runs its tests on yours.

::

    from pytest_compileiq.testing import EngineConformance

    class TestMyEngine(EngineConformance):
        def make(self, brief):
            return MyEngine(brief)

Each test is one promise of ``pytest_compileiq.engines.base.Engine``, and says which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Engine, Foreseeing, Told
from pytest_compileiq.model import Candidate, FailureKind
from pytest_compileiq.space import Predicate, Space, Where, choice, literal, log_sampling
from pytest_compileiq.space import range as steps

SMALL_SPACE = Space.from_mapping(
    {"-O": choice([1, 2, 3]), "-funroll-loops": literal("", 0.5), "group": {"-g": choice(["a", "b"])}}
)
LARGE_SPACE = Space.from_mapping(
    {f"-f{number}": literal("", 0.6) for number in range(12)}
    | {"-O": choice(["1", "s", "3"]), "-p=": choice([1, 2, 4, 8], 0.5), "n": steps(0, 100, 5, 0.5)}
    | {"l": log_sampling(1, 4096), "group": {"-g": literal("", 0.5), "inner": {"-h=": steps(0, 3)}}}
)


def _where(call: Callable[[Mapping[str, Any]], bool], text: str) -> Where:
    return Where((Predicate(call, text, text),))


BOUNDED_SPACE = Space.from_mapping(
    {"-DX=": choice([8, 16, 32, 64]), "-DY=": choice([8, 16, 32, 64]), "-DZ=": steps(1, 64, knockout_prob=0.5)}
    | {"-f": literal("", 0.5), "group": {"-g=": steps(0, 3), "-h": literal("", 0.5)}}
).bounded(_where(lambda k: k["-DX="] * k["-DY="] * k.get("-DZ=", 1) <= 2048 + k.get("-g=", 0), "X·Y·Z ≤ 2048 + g"))
SLIVER_SPACE = Space.from_mapping({"a": steps(0, 7), "b": steps(0, 7), "-f": literal("", 0.5)}).bounded(
    _where(lambda k: k["a"] + k["b"] <= 1, "a + b ≤ 1")
)
GROUP_SPACE = Space.from_mapping({"group": {"-a": literal("", 0.5), "-b": literal("", 0.5)}})

Judge = Callable[[Candidate], Told]


def digest_of(candidate: Candidate) -> int:
    """A number that depends on the knobs alone, for objectives that cost nothing."""
    text = repr(sorted(candidate.knobs.items())).encode() + (candidate.blob or b"")
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


class EngineConformance:
    """What every engine promises.

    Attributes:
        space: a large space that the engine searches.
        bounded_space: a space that ``where=`` bounds.
        small_space: a space that the engine exhausts.
        evaluations: how many a test spends on the large space.
        objectives: the most objectives that the engine takes.
        deterministic: whether equal briefs and results give equal candidates.
        batch: how many candidates are asked for at a time.
    """

    space: ClassVar[Space] = LARGE_SPACE
    small_space: ClassVar[Space] = SMALL_SPACE
    bounded_space: ClassVar[Space] = BOUNDED_SPACE
    evaluations: ClassVar[int] = 40
    objectives: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True
    batch: ClassVar[int] = 4

    def make(self, brief: Brief) -> Engine:
        """The engine under test."""
        raise NotImplementedError(f"{type(self).__name__}.make(brief): give your engine")

    def brief(
        self, space: Space | None = None, seed: int = 1, objectives: int = 1, seeds: Sequence[Candidate] = ()
    ) -> Brief:
        """A brief for the large space, or for ``space``."""
        return Brief(space or self.space, seed, objectives, self.evaluations, seeds)

    def search(self, engine: Engine, judge: Judge, evaluations: int | None = None) -> list[Candidate]:
        """Ask and tell in batches; returns the candidates in the order in which the engine gave them."""
        asked: list[Candidate] = []
        limit = evaluations or self.evaluations
        while len(asked) < limit and (batch := engine.ask(min(self.batch, limit - len(asked)))):
            asked += batch
            engine.tell([judge(candidate) for candidate in batch])
        return asked

    def scored(self, candidate: Candidate) -> Told:
        """A score that depends on the knobs alone."""
        return Told(candidate, (digest_of(candidate) / 2**32 - 0.5,))

    def check_candidates(self, asked: Sequence[Candidate], space: Space) -> None:
        """Assert that the candidates lie in the space and are distinct."""
        for candidate in asked:
            assert space.why_not(candidate.knobs) is None, f"{dict(candidate.knobs)}: {space.why_not(candidate.knobs)}"
        distinct = {(space.point(candidate.knobs), candidate.blob) for candidate in asked}
        assert len(distinct) == len(asked), f"{len(asked) - len(distinct)} candidates were asked more than once"

    def _check_whole_search(self, space: Space, judge: Judge, objectives: int = 1) -> None:
        asked = self.search(self.make(self.brief(space, objectives=objectives)), judge)
        assert len(asked) == min(self.evaluations, space.size), "the search ended early"
        self.check_candidates(asked, space)

    def _exhausted(self, space: Space) -> list[Candidate]:
        engine = self.make(self.brief(space))
        asked = self.search(engine, self.scored, space.size + self.batch)
        self.check_candidates(asked, space)
        assert engine.ask(self.batch) == [], "after its end a search has begun again"
        return asked

    def test_no_more_candidates_are_given_than_asked_for(self) -> None:
        engine = self.make(self.brief())
        for n in (1, 3, 7, 2):
            batch = engine.ask(n)
            assert 1 <= len(batch) <= n, f"ask({n}) gave {len(batch)} candidates of a space that is not exhausted"
            engine.tell([self.scored(candidate) for candidate in batch])

    def test_candidates_lie_in_the_space_and_are_distinct(self) -> None:
        self._check_whole_search(self.space, self.scored)

    def test_a_small_space_is_searched_to_its_end_and_no_further(self) -> None:
        self._exhausted(self.small_space)

    def test_no_candidate_lies_outside_of_where(self) -> None:
        self._check_whole_search(self.bounded_space, self.scored)

    def test_the_little_that_where_leaves_is_searched_and_no_further(self) -> None:
        assert self._exhausted(SLIVER_SPACE), "none of the points that are left was tried"

    def test_a_group_that_is_on_with_nothing_inside_is_the_group_that_is_off(self) -> None:
        asked = self.search(self.make(self.brief(GROUP_SPACE)), self.scored, 20)
        self.check_candidates(asked, GROUP_SPACE)

    @pytest.mark.parametrize("kind", get_args(FailureKind))
    def test_a_search_in_which_everything_fails_goes_on(self, kind: FailureKind) -> None:
        self._check_whole_search(self.space, lambda candidate: Told(candidate, failure=kind))

    def test_some_failures_and_equal_scores_are_taken(self) -> None:
        def judge(candidate: Candidate) -> Told:
            return Told(candidate, failure="crash") if digest_of(candidate) % 3 == 0 else Told(candidate, (0.0,))

        self.check_candidates(self.search(self.make(self.brief()), judge), self.space)

    def test_results_are_taken_late_one_by_one_and_in_another_order(self) -> None:
        engine = self.make(self.brief())
        asked: list[Candidate] = []
        for _ in range(3):
            batch = [candidate for _ in range(3) for candidate in engine.ask(2)]
            for candidate in reversed(batch):
                engine.tell([self.scored(candidate)])
            asked += batch
        self.check_candidates(asked, self.space)

    def test_duplicates_by_machine_code_are_taken(self) -> None:
        self._check_whole_search(self.space, lambda candidate: Told(candidate, (0.5,), duplicate=True))

    def test_equal_seeds_and_results_give_equal_searches(self) -> None:
        if not self.deterministic:
            pytest.skip("declared not to be deterministic")
        first, again = (self.search(self.make(self.brief(seed=7)), self.scored) for _ in range(2))
        assert [candidate.knobs for candidate in first] == [candidate.knobs for candidate in again]

    def test_an_outlook_is_of_numbers_and_changes_nothing(self) -> None:
        engine = self.make(self.brief(seed=7))
        if not isinstance(engine, Foreseeing):
            pytest.skip("it foresees nothing, which is no duty")

        def judge(candidate: Candidate) -> Told:
            outlook = engine.outlook()
            assert outlook is None or (outlook.improvement >= 0 and outlook.spread >= 0), outlook
            return self.scored(candidate)

        looked_at = self.search(engine, judge)
        alone = self.search(self.make(self.brief(seed=7)), self.scored)
        assert not self.deterministic or [one.knobs for one in looked_at] == [one.knobs for one in alone]

    def test_given_seeds_are_tried_first_and_what_lies_outside_the_space_is_not(self) -> None:
        rng = np.random.default_rng(5)
        points = list(dict.fromkeys(self.space.sample(rng) for _ in range(3)))
        foreign = Candidate({"-no-such-knob": 1})
        seeds = [foreign, *(Candidate(self.space.knobs(point)) for point in points)]
        asked = self.search(self.make(self.brief(seeds=seeds)), self.scored, 8)
        self.check_candidates(asked, self.space)
        early = {self.space.point(candidate.knobs) for candidate in asked[: len(points) + 1]}  # one may be the baseline
        assert set(points) <= early, "a seed was not among the first candidates"

    def test_several_objectives_are_taken(self) -> None:
        if self.objectives < 2:
            pytest.skip("declared to take one objective")

        def judge(candidate: Candidate) -> Told:
            number = digest_of(candidate)
            scores = tuple(float(number >> 8 * index & 255) for index in range(self.objectives))
            return Told(candidate, scores) if number % 5 else Told(candidate, failure="wrong")

        self._check_whole_search(self.space, judge, self.objectives)
