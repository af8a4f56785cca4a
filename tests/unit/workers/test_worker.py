"""A conversation with one worker: the order of what is said, and what an answer out of turn means."""

from __future__ import annotations

import pytest

from pytest_compileiq.testing import FakeCarrier, obedient
from pytest_compileiq.workers.messages import (
    CheckTask,
    Enter,
    Entered,
    Failed,
    FailureAnswer,
    Leave,
    Left,
    Quit,
    Ready,
    Start,
)
from pytest_compileiq.workers.pool import Worker
from pytest_compileiq.workers.transport import WorkerDied

START = Start(".", (), {}, (), (None,), {})
TASK = CheckTask("default", None)


@pytest.fixture
def worker():
    """A worker that answers as ``answers`` say, by the order's name, and what was said to it."""

    def make(**answers):
        carrier = FakeCarrier(lambda number, order: answers.get(type(order).__name__) or obedient(order))
        return Worker(carrier.launch(START, 0)), carrier

    return make


def said(carrier: FakeCarrier) -> list[str]:
    return [what for what, _ in carrier.said]


def test_it_is_entered_asked_left_and_entered_again(worker):
    one, carrier = worker()
    one.enter("a", None)
    assert one.inside == "a"
    one.ask(TASK, 1)
    one.enter("b", b"pickled")
    assert one.inside == "b"
    assert said(carrier) == ["Start", "Enter", "CheckTask", "Leave", "Enter"]


def test_a_worker_that_is_in_no_test_is_left_without_a_word(worker):
    one, carrier = worker()
    one.wait_ready()
    one.wait_ready()
    one.leave()
    assert said(carrier) == ["Start"]


@pytest.mark.parametrize(
    ("answers", "kind", "reason"),
    [
        ({"Start": Failed("ImportError: no module")}, "crash", "ImportError: no module"),
        ({"Start": Entered()}, "crash", "answered Entered"),
        ({"Enter": Failed("fixture 'x' not found")}, "wrong", "fixture 'x' not found"),
        ({"Enter": Failed(None)}, "wrong", "the test could not be set up"),
        ({"Enter": Ready()}, "wrong", "the test could not be set up"),
    ],
)
def test_one_that_does_not_get_in_says_why(worker, answers, kind, reason):
    one, _ = worker(**answers)
    with pytest.raises(WorkerDied) as died:
        one.enter("a", None)
    assert (died.value.kind, died.value.reason, one.inside) == (kind, reason, None)


def test_a_tasks_failure_is_an_answer_and_the_worker_stays_inside(worker):
    failure = FailureAnswer("tuned", "wrong", "AssertionError", False)
    one, _ = worker(CheckTask=failure)
    one.enter("a", None)
    assert one.ask(TASK, 1) == failure
    assert one.inside == "a"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Left("teardown: KeyError"), "the test ended within its task: teardown: KeyError"),
        (Left(None), "the test ended within its task: no reason given"),
        (Ready(), "the test ended within its task: no reason given"),
    ],
)
def test_a_test_that_ends_within_a_task_is_a_crash_and_is_not_left_again(worker, answer, reason):
    one, carrier = worker(CheckTask=answer)
    one.enter("a", None)
    with pytest.raises(WorkerDied) as died:
        one.ask(TASK, 1)
    assert (died.value.kind, died.value.reason) == ("crash", reason)
    one.leave()
    assert said(carrier) == ["Start", "Enter", "CheckTask"]


def test_one_that_does_not_leave_is_a_crash_and_is_not_asked_to_again(worker):
    one, carrier = worker(Leave=Ready())
    one.enter("a", None)
    with pytest.raises(WorkerDied, match="answered Ready"):
        one.leave()
    one.leave()
    assert said(carrier) == ["Start", "Enter", "Leave"]


@pytest.mark.parametrize(("entered", "last"), [(True, ["Leave", "Quit", "close"]), (False, ["Quit", "close"])])
def test_a_dismissed_worker_tears_down_quits_and_is_waited_for(worker, entered, last):
    one, carrier = worker()
    if entered:
        one.enter("a", None)
    one.dismiss()
    one.close()
    assert said(carrier)[-len(last) :] == last


def test_a_closed_worker_has_given_its_last_answer():
    """Its fixtures are down before its files are removed."""
    waited = []

    def answer(number, order):
        waited.append(type(order).__name__)
        return obedient(order)

    one = Worker(FakeCarrier(answer).launch(START, 0))
    one.enter("a", None)
    one.dismiss()
    waited.clear()
    one.close()
    assert waited == ["Leave"]


@pytest.mark.parametrize("dies_at", [Leave, Quit])
def test_one_that_is_gone_is_dismissed_and_closed_in_peace(dies_at):
    carrier = FakeCarrier(
        lambda number, order: WorkerDied("crash", "gone") if isinstance(order, dies_at) else obedient(order)
    )
    one = Worker(carrier.launch(START, 0))
    one.enter("a", None)
    one.dismiss()
    one.close()
    assert said(carrier)[-1] == "close"


def test_orders_are_answered_in_turn(worker):
    """The line keeps the order, so that the answer to an ``Enter`` is never taken for a task's."""
    one, _ = worker(Enter=Failed("first"))
    with pytest.raises(WorkerDied, match="first"):
        one.enter("a", None)
    with pytest.raises(WorkerDied, match="first"):
        one.enter("a", None)
    assert isinstance(obedient(Enter("a", None)), Entered)
