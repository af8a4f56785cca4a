"""The search loop, driven by fakes: what is asked, built, judged, kept and gone on with, in which order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pytest_compileiq import choice
from pytest_compileiq import range as steps
from pytest_compileiq.artifact import Withdrawn
from pytest_compileiq.config import Budget
from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.random import RandomSearch
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.journal import open_journal
from pytest_compileiq.search.loop import CannotResume, NothingJudged, NotInjected, Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.testing.fakes import FAKE_SPACE, FakeBuilder, FakePool, FakeProgress, by_options, fake_benchmark
from pytest_compileiq.workers.pool import EvaluationFailed

RUNTIME = by_options({"-fast": 5e-4, "-O3": 8e-4})


class Scripted:
    """An engine that asks for a given list, and keeps what it is told."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self._left = list(candidates)
        self.told: list[Told] = []
        self.asks: list[int] = []

    def ask(self, n: int) -> list[Candidate]:
        self.asks.append(n)
        batch, self._left = self._left[:n], self._left[n:]
        return batch

    def tell(self, results) -> None:
        self.told += results


def options(*texts: str) -> list[Candidate]:
    """``"-O3 -fast"`` → a candidate."""
    return [Candidate(dict(_knob(word) for word in text.split())) for text in texts]


def _knob(word: str) -> tuple[str, object]:
    return ("-O", int(word[2:])) if word.startswith("-O") else (word, "")


@pytest.fixture
def searching(tmp_path):
    """Run a search with an engine on fakes; returns the search, whose collaborators are its attributes."""

    def run(
        engine, pool=None, builder=None, *, budget=100, used=("kernel",), withdrawn=(), fresh=True, marker=None
    ) -> Search:
        builder = builder or FakeBuilder()
        benchmark = fake_benchmark(tmp_path, builder, **(marker or {}))
        pool = pool or FakePool(seconds=RUNTIME)
        with open_journal(tmp_path, benchmark.nodeid, benchmark.builder.target) as journal:
            if fresh:
                journal.clear()
            earlier = journal.begin({"identity": "same"}, ())
            brief = SearchBrief(
                benchmark, Scorer(pool, benchmark, Random(0)), journal, Budget(evaluations=budget), 1, FakeProgress(),
                Trackers([], print), frozenset(used), withdrawn,
            )  # fmt: skip
            search = Search(brief, engine)
            search.run(benchmark.builds.get(None), earlier.batches)
        return search

    return run


# ── one evaluation ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_candidate_is_built_measured_and_told_its_log_ratio(searching):
    engine = Scripted(options("-O3", "-fast"))
    search = searching(engine)
    assert [told.candidate.knobs for told in engine.told] == [{"-O": 3}, {"-fast": ""}]
    assert [round(told.scores[0], 2) for told in engine.told] == [-0.22, -0.69]
    assert (search.tally.evaluations, search.tally.valid, len(search.scored)) == (2, 2, 2)
    assert [number for number, _ in search.tally.improvements] == [1, 2]


def test_equal_machine_code_is_measured_once_and_told_with_the_first_ones_scores(searching):
    pool = FakePool(seconds=RUNTIME)
    builder = FakeBuilder(code=lambda knobs: {"kernel": "fast" if "-fast" in knobs else "plain"})
    engine = Scripted(options("-fast", "-O3 -fast", "-O2"))
    search = searching(engine, pool, builder)
    assert [told.duplicate for told in engine.told] == [False, True, True]
    assert engine.told[1].scores == engine.told[0].scores
    assert engine.told[2].scores == (0.0,)  # the baseline's own code
    assert [asked for asked in pool.asked if asked[0] == "block"] == [("block", 0, "-fast\n")]
    assert (search.tally.duplicates, search.tally.valid) == (2, 3)


def test_parameters_that_the_body_reads_make_equal_code_another_measurement(searching):
    pool = FakePool()
    engine = Scripted([Candidate({"block": 64}), Candidate({"block": 128})])
    searching(
        engine,
        pool,
        FakeBuilder(code=lambda knobs: {"kernel": "same"}, knobs_taken=frozenset({"block"})),
        marker={"space": {"block": choice([64, 128])}},
    )
    assert [told.duplicate for told in engine.told] == [False, False]
    assert len([asked for asked in pool.asked if asked[0] == "block"]) == 2


FAILURES = {
    "compile": (FakeBuilder(refusals={"-fast\n": "no such option"}), FakePool(seconds=RUNTIME), "no such option"),
    "crash": (
        FakeBuilder(),
        FakePool(seconds=RUNTIME, failures={"-fast\n": EvaluationFailed("tuned", "crash", "SIGSEGV")}),
        "SIGSEGV",
    ),
    "wrong": (
        FakeBuilder(),
        FakePool(seconds=RUNTIME, failures={"-fast\n": EvaluationFailed("tuned", "wrong", "1 != 2")}),
        "1 != 2",
    ),
    "neighbour": (
        FakeBuilder(code=lambda knobs: {"kernel": str(knobs), "other": str("-fast" in knobs)}),
        FakePool(seconds=RUNTIME),
        "also change other",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_typed_counted_told_at_once_and_the_search_goes_on(searching, kind):
    builder, pool, said = FAILURES[kind]
    engine = Scripted(options("-fast", "-O3"))
    search = searching(engine, pool, builder)
    failed, good = engine.told
    assert (failed.failure, failed.scores) == (kind, ())
    assert good.failure is None and good.scores
    assert search.tally.invalid == {kind: 1}
    assert said in search.tally.first_reason[kind]
    assert any(f"the first invalid candidate ({kind})" in line and said in line for line in search.brief.progress.said)


def test_withdrawn_machine_code_is_never_measured_again(searching):
    code = FakeBuilder().build(FakeBuilder().render(options("-fast")[0]), Path("/nowhere"), timeout_s=1).code
    pool = FakePool(seconds=RUNTIME)
    engine = Scripted(options("-fast", "-O3"))
    withdrawn = Withdrawn(reason="wrong on odd sizes", code={entry: one.sha256 for entry, one in code.items()})
    search = searching(engine, pool, withdrawn=(withdrawn,))
    assert engine.told[0].failure == "wrong"
    assert search.tally.first_reason["wrong"] == "withdrawn before: wrong on odd sizes"
    assert not [asked for asked in pool.asked if asked[2] == "-fast\n"]


# ── the budget ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("budget", [1, 4, 6, 9])
def test_the_budget_is_spent_to_the_last_evaluation_and_no_further(searching, budget):
    engine = Scripted([Candidate({"-O": number}) for number in range(20)])
    assert searching(engine, budget=budget).tally.evaluations == budget
    assert sum(engine.asks) == budget


def test_an_engine_with_nothing_left_ends_the_search(searching):
    assert searching(Scripted(options("-fast"))).tally.evaluations == 1


# ── searches that say nothing ────────────────────────────────────────────────────────────────────────────────────


def test_acfs_that_change_no_machine_code_are_never_injected(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "deaf"}, acf_line="fake1")
    engine = Scripted([Candidate({}, blob=bytes([number])) for number in range(20)])
    with pytest.raises(NotInjected, match="ACFs in a row change no machine code"):
        searching(engine, builder=builder)


def test_one_acf_that_changes_the_code_shows_that_they_arrive(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "heard" if knobs.get("blob") == "\x00" else "deaf"})
    engine = Scripted([Candidate({}, blob=bytes([number])) for number in range(12)])
    assert searching(engine, builder=builder).tally.evaluations == 12


def test_a_search_whose_candidates_are_void_stops_early(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": str(knobs), "other": str(knobs)})
    engine = Scripted([Candidate({"-O": number}) for number in range(100)])
    with pytest.raises(NothingJudged, match="of 16 candidates were not measured"):
        searching(engine, builder=builder)
    assert sum(engine.asks) < 30


def test_knobs_that_nobody_reads_stop_it_early(searching):
    engine = Scripted([Candidate({"BLOCK": number}) for number in range(100)])
    builder = FakeBuilder(code=lambda knobs: {"kernel": "same"})
    with pytest.raises(NothingJudged, match="knob 'BLOCK' was never read"):
        searching(engine, builder=builder, marker={"space": {"BLOCK": steps(0, 99)}})


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("killed_at", range(0, 10, 2))
def test_an_interrupted_search_goes_on_having_lost_nothing_and_repeating_nothing(searching, killed_at):
    first, second = FakePool(seconds=RUNTIME, interrupt_at=killed_at), FakePool(seconds=RUNTIME)
    whole = searching(RandomSearch(Brief(FAKE_SPACE, seed=3)))
    interrupted = searching(RandomSearch(Brief(FAKE_SPACE, seed=3)), first, fresh=True)
    resumed = searching(RandomSearch(Brief(FAKE_SPACE, seed=3)), second, fresh=False)
    assert interrupted.tally.evaluations <= resumed.tally.evaluations == whole.tally.evaluations
    measured = [options for what, _, options in first.asked + second.asked if what == "block"]
    assert len(measured) == len(set(measured))
    assert {one.controls.key for one in resumed.scored.values()} == {one.controls.key for one in whole.scored.values()}


def test_an_engine_that_asks_for_something_else_than_it_did_cannot_go_on(searching):
    searching(Scripted(options("-fast", "-O3")), FakePool(interrupt_at=1))
    with pytest.raises(CannotResume):
        searching(Scripted(options("-O3", "-fast")), fresh=False)
