"""Searches on fakes."""

from __future__ import annotations

from random import Random

import pytest

from pytest_compileiq.config import Budget
from pytest_compileiq.search.journal import open_journal
from pytest_compileiq.search.loop import Search, SearchBrief
from pytest_compileiq.search.scoring import Scorer
from pytest_compileiq.search.trackers import Trackers
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, by_options, fake_benchmark

RUNTIME = by_options({"-fast": 5e-4, "-O3": 8e-4})


@pytest.fixture
def searching(tmp_path):
    """Run a search with an engine on fakes; returns the search, whose collaborators are its attributes."""

    def run(
        engine,
        pool=None,
        builder=None,
        *,
        budget=100,
        jobs=1,
        stands_for=("kernel",),
        withdrawn=(),
        fresh=True,
        marker=None,
    ) -> Search:
        budget = budget if isinstance(budget, Budget) else Budget(evaluations=budget)
        builder = builder or FakeBuilder()
        benchmark = fake_benchmark(tmp_path, builder, **(marker or {}))
        pool = pool or FakePool(seconds=RUNTIME)
        with open_journal(tmp_path, benchmark.nodeid, benchmark.builder.target) as journal:
            if fresh:
                journal.clear()
            earlier = journal.begin({"identity": "same"}, ())
            brief = SearchBrief(
                benchmark, Scorer(pool, benchmark, Random(0)), journal, budget, jobs, FakeProgress(),
                Trackers([], print), frozenset(stands_for), withdrawn,
            )  # fmt: skip
            search = Search(brief, engine)
            search.begin(benchmark.builds.get(None), earlier.batches)
            search.advance()
        return search

    return run
