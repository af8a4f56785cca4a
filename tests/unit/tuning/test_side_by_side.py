"""Benchmarks side by side on fakes: each device has one at a time, and a Ctrl-C ends searches and begins no others."""

from __future__ import annotations

import threading

import pytest

from pytest_compileiq.config import Budget
from pytest_compileiq.errors import LeftAlone
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.tuning.devices import Interruption, SideBySide


def report(nodeid: str) -> ItemReport:
    return ItemReport(nodeid, nodeid, "x86-64-gcc12", Verdict.TUNED, "")


class Quiet:
    def evaluated(self, tally, budget, shift) -> None: ...
    def say(self, text: str) -> None: ...


def spread(tune, pools, nodeids, interruption=None) -> SideBySide:
    made = SideBySide(tune, pools, interruption or Interruption())
    made.begin(nodeids)
    return made


def test_as_many_are_tuned_at_once_as_there_are_devices_each_on_its_own():
    both = threading.Barrier(2, timeout=10)
    at_work: list[str] = []

    def tune(nodeid, pool):
        assert pool not in at_work
        at_work.append(pool)
        both.wait()  # nobody gets past it alone
        at_work.remove(pool)
        return report(nodeid)

    side = spread(tune, ["first", "second"], list("abcd"))
    assert [side.report_of(nodeid).name for nodeid in "abcd"] == list("abcd")
    side.close(lambda: None)


def test_what_fails_fails_where_it_is_asked_for_and_nowhere_else():
    def tune(nodeid, pool):
        if nodeid == "a":
            pytest.fail("a does not build")
        return report(nodeid)

    side = spread(tune, ["first"], ["a", "b"])
    assert side.report_of("b").verdict is Verdict.TUNED
    with pytest.raises(pytest.fail.Exception, match="a does not build"):
        side.report_of("a")
    side.close(lambda: None)


def test_an_interruption_ends_the_search_once_and_what_is_not_begun_stays_so():
    interruption, begun = Interruption(), threading.Event()

    def tune(nodeid, pool):
        heard = interruption.heard_by(Quiet())
        begun.set()
        try:
            while True:
                heard.evaluated(SearchCounts(), Budget(), None)
        except KeyboardInterrupt:
            heard.evaluated(SearchCounts(), Budget(), None)
            heard.say("proving what there is")
            return report(nodeid)

    side = spread(tune, ["only"], ["a", "b"], interruption)
    assert begun.wait(10)
    side.cancel()
    assert side.report_of("a").verdict is Verdict.TUNED
    with pytest.raises(LeftAlone, match="the same command begins it"):
        side.report_of("b")
    side.close(lambda: None)


def test_a_second_interruption_ends_proofs_too():
    heard = Interruption(2).heard_by(Quiet())
    with pytest.raises(KeyboardInterrupt):
        heard.say("proving")


def test_one_that_is_interrupted_before_its_search_is_told_and_not_raised_as_a_ctrl_c():
    def tune(nodeid, pool):
        raise KeyboardInterrupt

    side = spread(tune, ["only"], ["a"])
    with pytest.raises(LeftAlone, match="anything to settle"):
        side.report_of("a")
    side.close(lambda: None)
