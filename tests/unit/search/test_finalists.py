"""Which candidates of a search are measured again, how often, and which are worth a proof."""

from __future__ import annotations

import math
from collections import Counter
from itertools import count as counting
from random import Random

import pytest

from pytest_compileiq import minimize
from pytest_compileiq.model import Candidate
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF, choose_finalists
from pytest_compileiq.search.scoring import Scored, Scorer
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_benchmark
from pytest_compileiq.workers.pool import EvaluationFailed

SCORED = 60
MOST_ROUNDS = 12
SEARCH_S = 200.0


def controls(number):
    return FakeBuilder().render(Candidate({"-n": number}))


def scored(count=SCORED):
    """Candidates of which each seems a little worse than the one before."""
    return [Scored((-0.5 + number / 1000,), controls(number)) for number in range(count)]


def taking(factors, otherwise=0.9):
    """A pool in which candidates take so many times the baseline's time."""
    return FakePool(seconds=lambda arm: 1e-3 * (1.0 if arm is None else factors.get(arm.knobs["-n"], otherwise)))


@pytest.fixture
def chosen(tmp_path):
    """Choose finalists in a pool, of which each round takes ``round_s``: (play-off, tally, progress)."""

    def choose(candidates, pool, round_s=0.0, **marker):
        benchmark = fake_benchmark(tmp_path, FakeBuilder(), **marker)
        tally, progress = SearchCounts(earlier_s=SEARCH_S), FakeProgress()
        tally.end()
        times = counting(0.0, round_s)
        playoff = choose_finalists(candidates, Scorer(pool, benchmark, Random(0)), tally, progress, lambda: next(times))
        return playoff, tally, progress

    return choose


def numbers(playoff):
    return [each.controls.knobs["-n"] for each in playoff.ranked]


def blocks(pool):
    return Counter(options for what, _, options in pool.asked if what == "block")


def test_the_best_are_ranked_by_what_is_measured_again_alone(chosen):
    playoff, _, progress = chosen(scored(), taking({3: 0.7, PLAYOFF - 1: 0.6, PLAYOFF: 0.1, 0: 1.1}))
    assert numbers(playoff)[:2] == [PLAYOFF - 1, 3]  # the ninth is not looked at, however good it is
    assert 0 not in numbers(playoff)  # what is no better than the baseline is worth no proof
    assert playoff.ranked[0].scores[0] == pytest.approx(math.log(0.6), abs=0.01)
    assert progress.said == [f"play-off of the best {PLAYOFF}"]


@pytest.mark.parametrize(
    ("round_s", "rounds"),
    [(0.01, MOST_ROUNDS), (SEARCH_S, FEWEST_ROUNDS), (SEARCH_S / 90, FEWEST_ROUNDS + 4)],
    ids=["short", "long", "between"],
)
def test_rounds_are_as_many_as_fit_into_a_twentieth_of_the_search(chosen, round_s, rounds):
    pool = taking({})
    chosen(scored(), pool, round_s)
    assert blocks(pool) == {f"-n{number}\n": rounds for number in range(PLAYOFF)}


def test_candidates_take_turns_once_each_has_been_checked_alone(chosen):
    pool = taking({})
    chosen(scored(3), pool, SEARCH_S)
    turn = ["-n0\n", "-n1\n", "-n2\n"]
    assert pool.asked == [
        *(("check", 0, options) for options in turn),
        *(("block", 0, options) for options in turn * FEWEST_ROUNDS),
    ]


def test_of_no_candidates_nobody_is_chosen(chosen):
    playoff, _, progress = chosen([], pool := taking({}))
    assert (playoff.ranked, playoff.failures, pool.asked, progress.said) == ([], (), [], [])


def test_who_fails_drops_out_and_is_counted_once(chosen):
    pool = taking({4: 0.5, 5: 0.6})
    pool.failures = {
        "-n4\n": EvaluationFailed("tuned", "wrong", "assert 1 == 2"), "-n5\n": EvaluationFailed("tuned", "crash", "signal 11"),
    }  # fmt: skip
    playoff, tally, _ = chosen(scored(), pool)
    assert sorted(numbers(playoff)) == [0, 1, 2, 3, 6, 7]
    assert tally.invalid == {"wrong": 1, "crash": 1}
    assert [failure.kind for failure in playoff.failures] == ["wrong", "crash"]
    assert Counter(options for _, _, options in pool.asked)["-n4\n"] == 1


def test_a_disturbed_device_judges_nobody(chosen):
    pool = taking({})
    pool.failures = {"-n2\n": EvaluationFailed(None, "disturbed", "others compute here")}
    with pytest.raises(EvaluationFailed, match="others compute here"):
        chosen(scored(), pool)


def test_a_lost_worker_is_asked_again(chosen):
    class LostOnce(FakePool):
        def ask(self, *arguments):
            self.failures = {} if self.asked else {"-n0\n": EvaluationFailed(None, "lost", "the node went down")}
            return super().ask(*arguments)

    pool = LostOnce(seconds=taking({}).seconds)
    playoff, tally, _ = chosen(scored(2), pool)
    assert len(playoff.ranked) == 2
    assert tally.invalid == {}


def test_what_never_varies_takes_one_round(chosen):
    pool = taking({})
    pool.noise = 0
    chosen(scored(), pool, objectives=[minimize("loss")])
    assert set(blocks(pool).values()) == {1}


def test_what_varies_for_the_first_time_in_a_play_off_takes_as_many_rounds_as_a_time(chosen):
    pool = taking({})
    chosen(scored(), pool, objectives=[minimize("loss")])
    short_too = blocks(pool).pop("-n0\n")  # the short block that varied, taken again in full
    assert (short_too, set(blocks(pool).values()) - {short_too}) == (MOST_ROUNDS + 1, {MOST_ROUNDS})


def test_of_exact_objectives_nothing_is_measured_again(chosen):
    pool = taking({})
    playoff, *_ = chosen(scored(), pool, objectives=[minimize("code_bytes")])
    assert numbers(playoff) == list(range(PLAYOFF))
    assert pool.asked == []
