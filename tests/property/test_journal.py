"""What a search takes up is what was done, in whatever order it was done and wherever it was killed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytest_compileiq.config import Budget
from pytest_compileiq.engines.base import Told
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.journal import Evaluated, Journal, open_journal
from pytest_compileiq.search.loop import Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_benchmark

QUICK = settings(max_examples=20, stateful_step_count=40)
IDENTITY = {"identity": "same"}
CANDIDATES = [Candidate({"-O": number}) for number in range(8)]
places = st.integers(0, 3)


class Workers(RuleBasedStateMachine):
    """Workers that answer when they like, or never; a driver that is killed; and what must be left of it."""

    @initialize()
    def begins(self):
        self.home = tempfile.TemporaryDirectory()
        self.batches = 0
        self.begun: list[tuple[int, int, int]] = []  # (batch, place, attempt): of all runs
        self.losses: dict[tuple[int, int], list[str]] = {}
        self.done: dict[tuple[int, int], Evaluated] = {}
        self.opens()

    def opens(self):
        self.opened = open_journal(Path(self.home.name), "test_k.py::test_k", "x86-64")
        self.journal: Journal = self.opened.__enter__()
        self.earlier = self.journal.begin(IDENTITY, ()).batches
        for batch in self.earlier:
            self.journal.taken_up(batch)

    @precondition(lambda self: self.batches < 3)
    @rule()
    def asks(self):
        assert self.journal.asked(4, CANDIDATES[:4], None) == self.batches
        self.batches += 1

    @precondition(lambda self: self.batches)
    @rule(batch=st.integers(0, 2), place=places)
    def begins_an_attempt(self, batch, place):
        batch %= self.batches
        attempt = self.journal.begun(batch, place)
        assert (batch, place, attempt) not in self.begun
        self.begun.append((batch, place, attempt))

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def loses_a_worker(self, data):
        batch, place, attempt = data.draw(st.sampled_from(self.begun))
        reason = f"{batch} {place} {attempt}"
        if reason not in self.losses.setdefault((batch, place), []):
            self.losses[batch, place].append(reason)
            self.losses[batch, place].sort(key=lambda loss: int(loss.split()[-1]))
        self.journal.lost(batch, place, attempt, reason)

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def answers(self, data):
        """Any attempt of this run or of one before may answer, and more than once."""
        batch, place, attempt = data.draw(st.sampled_from(self.begun))
        newest = max(number for *where, number in self.begun if where == [batch, place])
        counts = attempt == newest and (batch, place) not in self.done
        evaluated = Evaluated((float(batch), float(place), float(attempt)), None, "", False, "", [], len(self.done))
        assert self.journal.finished(batch, place, evaluated, attempt) is counts
        if counts:
            self.done[batch, place] = evaluated

    @rule()
    def is_killed(self):
        self.opened.__exit__(None, None, None)
        self.opens()
        taken_up = {
            (number, place): evaluated
            for number, batch in enumerate(self.earlier)
            for place, evaluated in batch.done.items()
        }
        assert taken_up == self.done
        assert len(self.earlier) == self.batches

    @invariant()
    def knows_every_loss(self):
        for (batch, place), reasons in self.losses.items():
            assert self.journal.losses(batch, place) == tuple(reasons)

    def teardown(self):
        self.opened.__exit__(None, None, None)
        self.home.cleanup()


TestWorkers = Workers.TestCase
TestWorkers.settings = QUICK


class AllAtOnce:
    """An engine that asks for the eight candidates at once."""

    def __init__(self):
        self.told: list[Told] = []
        self._left = list(CANDIDATES)

    def ask(self, n):
        asked, self._left = self._left, []
        return asked

    def tell(self, results):
        self.told += results


def search(root: Path, done: dict[int, Evaluated]) -> tuple[list[Told], list[str], dict[int, Evaluated]]:
    """A search that takes up ``done``; what its engine was told, what was measured, and all that is in its journal."""
    (root / "kernel.src").write_text("one")
    benchmark = fake_benchmark(root, FakeBuilder())
    pool = FakePool(seconds=lambda controls: 1e-3 / (2 + dict(controls.knobs)["-O"]) if controls else 1e-3)
    engine = AllAtOnce()
    with open_journal(root, benchmark.nodeid, benchmark.builder.target) as journal:
        journal.begin(IDENTITY, ())
        if done:
            journal.asked(8, CANDIDATES, None)
            for place, evaluated in done.items():
                journal.finished(0, place, evaluated)
    with open_journal(root, benchmark.nodeid, benchmark.builder.target) as journal:
        earlier = journal.begin(IDENTITY, ()).batches
        brief = SearchBrief(
            benchmark, Scorer(pool, benchmark, Random(0)), journal, Budget(8), 1, FakeProgress(), Trackers([], print),
            frozenset({"kernel"}),
        )  # fmt: skip
        search = Search(brief, engine)
        search.begin(benchmark.builds.get(None), earlier)
        search.advance()
        (batch,) = journal.begin(IDENTITY, ()).batches
    return engine.told, [options for what, _, options in pool.asked if what == "block"], dict(batch.done)


WHOLE: list[tuple[list[Told], list[str], dict[int, Evaluated]]] = []


@QUICK
@given(st.permutations(range(8)), st.integers(1, 8))
def test_scores_go_to_their_candidates_in_whatever_order_they_came(order, kept):
    with tempfile.TemporaryDirectory() as home:
        if not WHOLE:
            (whole := Path(home, "whole")).mkdir()
            WHOLE.append(search(whole, {}))
        told, _, all_done = WHOLE[0]
        done = {place: all_done[place] for place in order[:kept]}
        (killed := Path(home, "killed")).mkdir()
        told_then, measured, all_done_then = search(killed, done)
    assert [each.candidate for each in told_then] == CANDIDATES
    assert [each.scores[0] for each in told_then] == pytest.approx([each.scores[0] for each in told], rel=0.02)
    assert all(told_then[place].scores == evaluated.scores for place, evaluated in done.items())
    assert {place: all_done_then[place] for place in done} == done
    assert len(measured) == 8 - kept
    assert not {f"-O{place}\n" for place in done} & set(measured)
