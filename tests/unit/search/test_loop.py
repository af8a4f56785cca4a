"""The search loop, driven by fakes: what is asked, built, judged, kept and gone on with, in which order."""

from __future__ import annotations

import contextlib
import sqlite3
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from pytest_compileiq import choice, minimize
from pytest_compileiq import range as steps
from pytest_compileiq.artifact import Withdrawn
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.config import Budget
from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.simple import RandomSearch
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Candidate
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.search.journal import open_journal
from pytest_compileiq.search.loop import CANARIES, CannotResume, NothingJudged, NotInjected, Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.spelling import MOST_NAMED
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


class Generations(Scripted):
    """An engine whose state is saved: what it has asked for so far."""

    def checkpoint(self) -> bytes:
        return bytes([len(self._left)])

    def restore(self, state: bytes) -> None:
        self._left = self._left[len(self._left) - state[0] :]


def options(*texts: str) -> list[Candidate]:
    """``"-O3 -fast"`` → a candidate."""
    return [Candidate(dict(_knob(word) for word in text.split())) for text in texts]


def _knob(word: str) -> tuple[str, object]:
    return ("-O", int(word[2:])) if word.startswith("-O") else (word, "")


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
    assert engine.told[0].code == engine.told[1].code != engine.told[2].code
    assert {asked for asked in pool.asked if asked[0] == "block"} == {("block", 0, "-fast\n")}
    assert (search.tally.duplicates, search.tally.valid) == (2, 3)


def test_parameters_that_the_body_reads_make_equal_code_another_measurement(searching):
    pool = FakePool(noise=0)
    engine = Scripted([Candidate({"block": 64}), Candidate({"block": 128})])
    searching(
        engine,
        pool,
        FakeBuilder(code=lambda knobs: {"kernel": "same"}, knobs_taken=frozenset({"block"})),
        marker={"space": {"block": choice([64, 128])}},
    )
    assert [told.duplicate for told in engine.told] == [False, False]
    assert engine.told[0].code != engine.told[1].code
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


def test_the_first_failure_of_a_kind_alone_is_told_at_once(searching):
    builder, pool, _ = FAILURES["neighbour"]
    search = searching(Scripted(options("-fast", "-O2 -fast", "-O3")), pool, builder)
    assert sum("the first invalid candidate" in line for line in search.brief.progress.said) == 1


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


@pytest.mark.parametrize(("seconds", "evaluations"), [(0.0, 0), (1e6, 20)])
def test_a_budget_of_seconds_ends_with_the_time_or_with_the_space(searching, seconds, evaluations):
    engine = Scripted([Candidate({"-O": number}) for number in range(20)])
    assert searching(engine, budget=Budget(seconds=seconds)).tally.evaluations == evaluations
    assert set(engine.asks) <= {4}


@pytest.mark.parametrize(
    ("engine", "budget", "jobs", "asks"),
    [
        (Scripted, 100, 1, 4),
        (Scripted, 100, 8, 8),
        (Scripted, 100, 50, 12),  # an eighth of the budget: the engine has to learn in between
        (Scripted, 3, 50, 3),
        (Generations, 100, 1, 8),
        (Generations, 100, 4, 32),
        (Generations, 5, 4, 5),
    ],
)
def test_a_batch_keeps_every_job_busy_and_the_engine_learning(searching, engine, budget, jobs, asks):
    asked = engine([Candidate({"-O": number}) for number in range(200)])
    searching(asked, budget=budget, jobs=jobs)
    assert asked.asks[0] == asks


EXACT = {"objectives": [minimize("code_bytes")]}


@pytest.mark.parametrize(
    ("engine", "marker", "before_the_first_is_told"), [(Scripted, {}, 4), (Scripted, EXACT, 8), (Generations, EXACT, 8)]
)
def test_the_next_batch_is_built_meanwhile_only_where_nothing_is_timed_and_no_generation_has_to_end(
    searching, engine, marker, before_the_first_is_told
):
    waiting = []

    class Watching(engine):
        def tell(self, results):
            waiting.append(sum(self.asks) - len(self.told))
            super().tell(results)

    searching(Watching([Candidate({"-O": number}) for number in range(40)]), marker=marker)
    assert waiting[0] == before_the_first_is_told


def test_an_engine_with_nothing_left_ends_the_search(searching):
    assert searching(Scripted(options("-fast"))).tally.evaluations == 1


# ── searches that say nothing ────────────────────────────────────────────────────────────────────────────────────


def test_acfs_that_change_no_machine_code_are_never_injected(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "deaf"}, acf_line="fake1")
    engine = Scripted([Candidate({}, blob=bytes([number])) for number in range(20)])
    with pytest.raises(NotInjected, match=f"^{CANARIES} ACFs in a row change no machine code"):
        searching(engine, builder=builder, budget=CANARIES)


def test_one_acf_that_changes_the_code_shows_that_they_arrive(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "heard" if knobs.get("blob") == "\x00" else "deaf"})
    engine = Scripted([Candidate({}, blob=bytes([number])) for number in range(12)])
    assert searching(engine, builder=builder).tally.evaluations == 12


def test_a_search_whose_candidates_are_void_stops_early(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": str(knobs), "other": f"other {knobs}"})
    engine = Scripted([Candidate({"-O": number}) for number in range(100)])
    with pytest.raises(NothingJudged, match="8 of 8 candidates were not measured"):
        searching(engine, builder=builder)
    assert sum(engine.asks) < 30


def test_a_knob_that_the_body_reads_is_not_called_unread(searching):
    pool = FakePool(touched=Touched(frozenset({"kernel"}), frozenset({"BLOCK"})))
    engine = Scripted([Candidate({"BLOCK": number}) for number in range(20)])
    builder = FakeBuilder(code=lambda knobs: {"kernel": "same" if not knobs else str(knobs)})
    search = searching(engine, pool, builder, marker={"space": {"BLOCK": steps(0, 99)}})
    assert (search.tally.evaluations, search.unread) == (20, ())


def test_the_first_neighbours_are_named_and_the_others_counted(searching):
    others = [f"f{number}" for number in range(MOST_NAMED + 3)]
    builder = FakeBuilder(code=lambda knobs: {"kernel": str(knobs)} | dict.fromkeys(others, str("-fast" in knobs)))
    search = searching(Scripted(options("-fast", "-O3")), FakePool(seconds=RUNTIME), builder)
    named = ", ".join(sorted(others)[:MOST_NAMED])
    assert search.tally.first_reason["neighbour"].startswith(f"also change {named}, and 3 more, which")


def test_knobs_that_nobody_reads_stop_it_early(searching):
    engine = Scripted([Candidate({"BLOCK": number}) for number in range(100)])
    builder = FakeBuilder(code=lambda knobs: {"kernel": "same"})
    with pytest.raises(NothingJudged, match="knob 'BLOCK' was never read"):
        searching(engine, builder=builder, marker={"space": {"BLOCK": steps(0, 99)}})


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_search_journal_of_odd_scores_is_refused(searching, tmp_path):
    def run(*, fresh):
        return searching(RandomSearch(Brief(FAKE_SPACE, seed=3)), FakePool(seconds=RUNTIME), fresh=fresh)

    run(fresh=True)
    with contextlib.closing(sqlite3.connect(tmp_path / ".compileiq" / "journal.sqlite3")) as file, file:
        file.execute("UPDATE evaluation SET scores = '[0.5, 0.5]'")
    with pytest.raises(StoreError, match=r"2 scores of 1 objectives.*--tune-fresh"):
        run(fresh=False)


def spent(search: Search) -> tuple[object, ...]:
    tally = search.tally
    return tally.evaluations, tally.valid, tally.duplicates, tally.invalid, tally.first_reason


def test_what_follows_a_search_takes_none_of_its_time(searching):
    search = searching(RandomSearch(Brief(FAKE_SPACE, seed=3)), FakePool(seconds=RUNTIME))
    taken = search.tally.seconds
    assert search.tally.seconds == taken > 0


class Noting(RandomSearch):
    """One that notes what it was told: after a kill, all of it again."""

    def __init__(self) -> None:
        super().__init__(Brief(FAKE_SPACE, seed=3))
        self.told: list[Told] = []

    def tell(self, results):
        self.told += results
        super().tell(results)


@pytest.mark.parametrize("killed_at", range(0, 10, 2))
def test_an_interrupted_search_goes_on_having_lost_nothing_and_repeating_nothing(searching, killed_at):
    def some(knobs):
        return {"kernel": "same" if knobs.get("-O") == 2 else str(sorted(knobs.items()))}

    def run(pool, engine, *, fresh):
        builder = FakeBuilder(code=some, refusals={"-O1\n": "no such level", "-O1\n-fast\n": "no such level"})
        return searching(engine, pool, builder, fresh=fresh)

    first, second = FakePool(seconds=RUNTIME, interrupt_at=killed_at), FakePool(seconds=RUNTIME)
    at_once, again = Noting(), Noting()
    whole = run(FakePool(seconds=RUNTIME), at_once, fresh=True)
    interrupted = run(first, Noting(), fresh=True)
    resumed = run(second, again, fresh=False)
    assert interrupted.tally.evaluations <= resumed.tally.evaluations
    assert spent(resumed) == spent(whole)
    assert [(told.candidate, told.failure, told.duplicate, told.code) for told in again.told] == [
        (told.candidate, told.failure, told.duplicate, told.code) for told in at_once.told
    ]
    assert resumed.tally.seconds >= interrupted.tally.earlier_s
    assert (resumed.tally.earlier_s > 0) == (interrupted.tally.evaluations > 0)
    blocks = [options for what, _, options in first.asked + second.asked if what == "block"]
    measured = [options for options, _looks in groupby(blocks)]
    assert len(measured) == len(set(measured))
    assert {one.controls.key for one in resumed.scored.values()} == {one.controls.key for one in whole.scored.values()}


def test_a_search_that_goes_on_tells_its_engine_the_same_errors(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": str(knobs["-O"] % 7 if knobs else None)})
    candidates = [Candidate({"-O": number}) for number in range(12)]
    first, second = Scripted(candidates), Scripted(candidates)
    searching(first, FakePool(noise=0.05), builder, budget=8)
    searching(second, FakePool(noise=0.05), builder, fresh=False)
    assert second.told[:8] == first.told and len(second.told) == 12
    assert all(told.errors[0] > 0 for told in second.told)
    assert second.told[7].duplicate and second.told[7].errors == second.told[0].errors


def test_a_search_that_goes_on_tells_its_engine_the_same_of_withdrawn_code(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "bad" if knobs.get("-O", 0) % 2 else str(knobs)})
    bad = builder.build(builder.render(Candidate({"-O": 1})), Path("/nowhere"), timeout_s=1).code
    gone = [Withdrawn(reason="wrong on odd sizes", code={entry: one.sha256 for entry, one in bad.items()})]
    whole, first, second = (Scripted([Candidate({"-O": number}) for number in range(12)]) for _ in range(3))
    at_once = searching(whole, builder=builder, withdrawn=gone)
    searching(first, builder=builder, withdrawn=gone, budget=4)
    assert spent(searching(second, builder=builder, withdrawn=gone, fresh=False)) == spent(at_once)
    assert [(told.failure, told.duplicate) for told in second.told] == [("wrong" if number % 2 else None, False)
                                                                       for number in range(12)]  # fmt: skip


def test_acfs_that_arrived_before_a_kill_have_shown_that_they_do(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "heard" if knobs.get("blob") == "\x00" else "deaf"})
    candidates = [Candidate({}, blob=bytes([number])) for number in range(20)]
    searching(Scripted(candidates), builder=builder, budget=4)
    assert searching(Scripted(candidates), builder=builder, fresh=False).tally.evaluations == 20


def test_acfs_that_did_nothing_before_a_kill_have_shown_nothing(searching):
    builder = FakeBuilder(code=lambda knobs: {"kernel": "deaf"})
    candidates = [Candidate({}, blob=bytes([number])) for number in range(20)]
    searching(Scripted(candidates), builder=builder, budget=4)
    with pytest.raises(NotInjected):
        searching(Scripted(candidates), builder=builder, fresh=False)


def test_an_engine_of_generations_goes_on_from_its_last_checkpoint(searching):
    candidates = [Candidate({"-O": number}) for number in range(40)]
    first, second = FakePool(noise=0, interrupt_at=19), FakePool(noise=0)  # no challenger: one block each
    searching(Generations(candidates), first, budget=30)
    engine = Generations(candidates)
    search = searching(engine, second, budget=30, fresh=False)
    assert search.tally.evaluations == 30
    assert engine.asks[:2] == [8, 6] and [told.candidate for told in engine.told] == candidates[16:30]
    measured = [options for what, _, options in first.asked[:19] + second.asked if what == "block"]
    assert len(measured) == len(set(measured)) == 30


def test_an_engine_of_generations_goes_on_twice(searching):
    """What the second run takes up counts for the third one's numbers too."""
    candidates = [Candidate({"-O": number}) for number in range(40)]
    for interrupt_at in (19, 9):
        searching(Generations(candidates), FakePool(interrupt_at=interrupt_at), budget=40, fresh=interrupt_at == 19)
    assert searching(Generations(candidates), FakePool(), budget=40, fresh=False).tally.evaluations == 40


def test_an_engine_that_asks_for_something_else_than_it_did_cannot_go_on(searching):
    searching(Scripted(options("-fast", "-O3")), FakePool(interrupt_at=1))
    with pytest.raises(CannotResume):
        searching(Scripted(options("-O3", "-fast")), fresh=False)


# ── lost workers ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Losing(FakePool):
    """Workers that are lost with ``-O3``, the first ``times``."""

    def __init__(self, times):
        super().__init__(seconds=RUNTIME)
        self.times = times

    def _ask(self, what, number, controls):
        if controls is not None and controls.data == b"-O3\n" and self.times:
            self.times -= 1
            raise EvaluationFailed(None, "lost", f"node {self.times} went down")
        super()._ask(what, number, controls)


def test_what_was_lost_with_its_worker_is_asked_for_again(searching):
    engine = Scripted(options("-O3", "-fast"))
    search = searching(engine, Losing(1))
    assert [round(told.scores[0], 2) for told in engine.told] == [-0.22, -0.69]
    assert (search.tally.evaluations, search.tally.invalid) == (2, {})
    assert [len(knobs) for knobs in search.aliases.values()] == [1, 1]


def test_a_candidate_that_two_workers_were_lost_with_is_named_and_never_asked_for_again(searching):
    engine, pool = Scripted([*options("-O3", "-fast", "-O3", "-O3 -fast"), *options("-O2")]), Losing(9)
    builder = FakeBuilder(code=lambda knobs: {"kernel": "same" if knobs.get("-O") == 3 else str(knobs)})
    search = searching(engine, pool, builder)
    assert [told.failure for told in engine.told] == ["lost", None, "lost", "lost", None]
    assert pool.times == 7  # equal machine code is not asked for either
    reason = "2 workers were lost with -O3: node 8 went down; node 7 went down"
    assert search.tally.first_reason == {"lost": reason}


def test_losses_of_a_run_that_was_killed_count(searching):
    class Killed(Losing):
        def _ask(self, what, number, controls):
            if self.times == 8:  # lost once, and asked for again
                raise KeyboardInterrupt
            super()._ask(what, number, controls)

    searching(Scripted(options("-O3")), Killed(9))
    engine, pool = Scripted(options("-O3")), Losing(9)
    searching(engine, pool, fresh=False)
    assert [told.failure for told in engine.told] == ["lost"]
    assert pool.times == 8


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Noted(Scripted):
    """Keeps the order of asks and tells."""

    def ask(self, n):
        asked = super().ask(n)
        self.order.append(("ask", [str(dict(candidate.knobs)) for candidate in asked]))
        return asked

    def tell(self, results):
        super().tell(results)
        self.order.append(("tell", len(results)))

    def __init__(self, candidates):
        super().__init__(candidates)
        self.order = []


@pytest.mark.parametrize("objective", ["runtime", "code_bytes"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_search_asks_and_tells_the_same_however_often_it_pauses(tmp_path, objective, batches):
    """What is built ahead, where nothing is timed, is asked ahead in every turn too."""
    orders = []
    for turns in (False, True):
        root = tmp_path / str(turns)
        root.mkdir()
        (root / "kernel.src").write_text("one")
        benchmark = fake_benchmark(root, FakeBuilder(), objectives=[minimize(objective)])
        engine = Noted([Candidate({"-O": level, "-DN=": number}) for number in range(6) for level in (1, 2, 3)])
        with open_journal(root, benchmark.nodeid, benchmark.builder.target) as journal:
            journal.begin({}, ())
            brief = SearchBrief(
                benchmark, Scorer(FakePool(seconds=RUNTIME), benchmark, Random(0)), journal, Budget(), 1,
                FakeProgress(), Trackers([], print), frozenset({"kernel"}),
            )  # fmt: skip
            search = Search(brief, engine)
            search.begin(benchmark.builds.get(None), ())
            while not search.is_over:
                left = iter(range(batches if turns else 100))
                search.advance(lambda left=left: next(left, None) is not None)
                assert all(build.done() for waiting in search._waiting for _, _, build in waiting.left.values())
        assert search.tally.evaluations == 18
        orders.append(engine.order)
    assert orders[0] == orders[1]


def test_a_pause_takes_no_time_of_a_search(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    tally = SearchCounts(started=100.0)
    now[0] = 103.0
    tally.end()
    now[0] = 250.0
    assert tally.seconds == 3.0
    tally.go_on()
    now[0] = 252.0
    assert tally.seconds == 5.0
