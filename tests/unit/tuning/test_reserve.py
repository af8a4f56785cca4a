"""How long closing a search is estimated to take, by what its search took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.model import Workload
from pytest_compileiq.rules.gate import CONFIRM_AFTER_S, PROCESS_EVERY_S
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF
from pytest_compileiq.tuning.night_budget import closing_seconds

SEARCH_S = 400.0


def run_of(*, is_timed=True, quads_s=0.0, workloads=1):
    """A search of ``SEARCH_S``, of which a quad took ``quads_s``."""
    benchmark = SimpleNamespace(
        timed_objectives=("runtime",) * is_timed, timed_workloads=tuple(Workload(str(n)) for n in range(workloads))
    )
    return SimpleNamespace(
        brief=SimpleNamespace(scorer=SimpleNamespace(quads=1, quads_s=quads_s)),
        search=SimpleNamespace(tally=SimpleNamespace(seconds=SEARCH_S)),
        tuning=SimpleNamespace(
            benchmark=benchmark,
            pool=SimpleNamespace(devices=1),
            settings=SimpleNamespace(jobs=1),
            baseline=SimpleNamespace(drew=False),
        ),
    )


@pytest.mark.parametrize("reduce", [True, False])
def test_what_is_timed_may_take_a_twentieth_of_the_search_and_waits(reduce):
    timed, exact = (closing_seconds(run_of(is_timed=is_timed), 0.0, reduce) for is_timed in (True, False))
    waited = 2 * 16 * PROCESS_EVERY_S + (0 if reduce else CONFIRM_AFTER_S)
    assert timed - exact == pytest.approx(SEARCH_S / 20 + waited)


def test_a_play_off_takes_its_fewest_rounds_and_a_check_of_each_on_every_workload(monkeypatch):
    monkeypatch.setattr("pytest_compileiq.rules.gate.looks_of", lambda devices: (0, 0, 0))  # nothing is proven
    slow, quick = (closing_seconds(run_of(quads_s=quads_s, workloads=2), 0.0, True) for quads_s in (3.0, 1.0))
    assert slow - quick == pytest.approx(2.0 * 2 * PLAYOFF * (FEWEST_ROUNDS + 1))
