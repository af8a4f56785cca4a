"""A share for each core, and the answers in the order of the items."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from pytest_compileiq.errors import EnvironmentFault, StoreError
from pytest_compileiq.system.cpu import spread


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)))
    return request.param


def test_shares_are_worked_on_in_as_many_processes_as_there_are_cores(cores):
    results = spread(lambda share: (list(share), os.getpid()), range(10), least=1)
    assert [item for share, _ in results for item in share] == list(range(10))
    assert len({process for _, process in results}) == cores and results[0][1] == os.getpid()


def test_few_items_are_worked_on_here(cores):
    assert spread(lambda share: (list(share), os.getpid()), [1, 2], least=2) == [([1, 2], os.getpid())]
    assert spread(list, [], least=1) == [[]]


@pytest.mark.parametrize("of_others", [False, True])
def test_what_was_frozen_stays_frozen_and_nothing_else_does(cores, of_others):
    gc.unfreeze()
    if of_others:
        gc.freeze()
    spread(list, range(10), least=1)
    assert bool(gc.get_freeze_count()) is of_others
    gc.freeze()  # as tests/conftest.py has it


def test_a_process_that_is_killed_is_a_sentence(cores):
    parent = os.getpid()

    def work(share):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return list(share)

    if cores == 1:
        assert spread(work, range(10), least=1) == [list(range(10))]
        return
    with pytest.raises(EnvironmentFault, match=r"was killed \(exit code -9\).*run the same again"):
        spread(work, range(10), least=1)


def test_what_a_share_raises_is_raised_here(cores):
    def work(share):
        if 9 in share:
            raise StoreError("nine")

    with pytest.raises(StoreError, match="nine"):
        spread(work, range(10), least=1)
