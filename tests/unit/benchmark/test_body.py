"""What ``measure`` does around a body: whose callable runs last, and who is to blame, on Python callables."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.benchmark import body as body_module
from pytest_compileiq.benchmark.body import ArmFailure, check_body, run_block
from pytest_compileiq.model import Objective, Workload
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.timing.watch import Disturbance, Watch

ARMS = {"baseline": None, "tuned": None}
ORDERS = [(outer, quad) for outer in ("baseline", "tuned") for quad in ("ABBA", "BAAB")]


def benchmark(metric: str = "runtime") -> SimpleNamespace:
    """As much of a benchmark as a body needs that builds nothing."""
    objectives = (Objective(metric, "minimize"),)
    return SimpleNamespace(builds=None, builder=SimpleNamespace(clock="cpu"), timed_objectives=objectives)


def block(body, outer="baseline", quad="ABBA", tick=lambda: None, metric="runtime"):
    return run_block(benchmark(metric), body, ARMS, Workload("default"), BlockPlan(outer, (quad,), 1), tick)


@pytest.mark.parametrize(("outer", "quad"), ORDERS)
def test_after_measure_the_shared_buffer_holds_this_arms_output(outer, quad):
    buffer, seen = {}, []

    def body(acf):
        acf.measure(lambda: buffer.update(by=acf.arm))
        seen.append((acf.arm, buffer["by"]))

    block(body, outer, quad)

    inner = "tuned" if outer == "baseline" else "baseline"
    assert seen == [(inner, inner), (outer, outer)]


def test_the_outer_arms_callable_runs_again_when_the_inner_body_has_ended():
    events = []

    def body(acf):
        acf.measure(lambda: events.append(f"{acf.arm} called"))
        events.append(f"{acf.arm} asserts")

    block(body, outer="tuned")

    assert events[-5:] == [
        "baseline called", "baseline called", "baseline asserts", "tuned called", "tuned asserts"
    ]  # fmt: skip


def test_a_single_arms_measure_calls_once():
    calls = []
    check_body(benchmark(), lambda acf: acf.measure(lambda: calls.append(acf.arm)), ARMS, Workload("default"))

    assert calls == ["tuned"]


def test_a_watcher_sees_progress_before_each_call_that_is_no_sample():
    events = []

    def body(acf):
        acf.measure(lambda: events.append("call"))
        events.append("asserts")

    block(body, tick=lambda: events.append("tick"))

    last = [events[place - 2 : place] for place, event in enumerate(events) if event == "asserts"]
    assert last == [["tick", "call"], ["tick", "call"]]


def failing_on(arm: str, number: int, *, swallow: bool):
    """A body whose callable raises in the arm's call of that number, counted over all runs of the body."""
    calls = {"baseline": 0, "tuned": 0}

    def body(acf):
        def call():
            calls[acf.arm] += 1
            if (acf.arm, calls[acf.arm]) == (arm, number):
                raise ZeroDivisionError("the kernel's own")

        try:
            acf.measure(call)
        except Exception:
            if not swallow:
                raise

    return body, calls


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("arm", ["baseline", "tuned"])
@pytest.mark.parametrize("outer", ["baseline", "tuned"])
def test_an_exception_of_the_last_call_is_its_arms_failure_whatever_the_body_catches(outer, arm, swallow):
    tail = "runtime@p95"  # its samples are of one call each, so that the number of calls is known
    body, calls = failing_on("nobody", 0, swallow=False)
    block(body, outer, metric=tail)
    body, _ = failing_on(arm, calls[arm], swallow=swallow)

    with pytest.raises(ArmFailure, match="the measured callable raised ZeroDivisionError: the kernel's own") as caught:
        block(body, outer, metric=tail)
    assert (caught.value.arm, caught.value.kind) == (arm, "wrong")


@pytest.mark.parametrize("arm", ["baseline", "tuned"])
@pytest.mark.parametrize("outer", ["baseline", "tuned"])
def test_an_assertion_after_measure_is_its_own_arms_failure(outer, arm):
    def body(acf):
        acf.measure(lambda: None)
        assert acf.arm != arm, "the output is wrong"

    with pytest.raises(ArmFailure, match="the output is wrong") as caught:
        block(body, outer)
    assert (caught.value.arm, caught.value.kind) == (arm, "wrong")


def test_where_nothing_is_clocked_the_callable_runs_all_the_same():
    calls = []
    timed = benchmark("throughput")

    def body(acf):
        acf.measure(lambda: calls.append(acf.arm))

    with pytest.raises(ArmFailure):  # the objective is not recorded; what counts here is what ran
        run_block(timed, body, ARMS, Workload("default"), BlockPlan("baseline", ("ABBA",), 1), lambda: None)
    assert calls == ["tuned", "baseline"]


# ── others on the device ─────────────────────────────────────────────────────────────────────────────────────────


class Watched(Watch):
    """Keeps what it is asked, and sees a neighbour when it is asked the ``seen``-th time."""

    def __init__(self, seen: int = -1, slow: int = -1) -> None:
        self.asked: list[str] = []
        self.remarks = ("nobody looked",)
        self.seen, self.slow = seen, slow

    def __exit__(self, *_):
        self.asked.append("free")

    def before(self):
        self.ask("before")

    def after_quad(self):
        return self.ask("quad")

    def after(self):
        self.ask("after")

    def ask(self, what: str) -> str | None:
        self.asked.append(what)
        if len(self.asked) == self.seen:
            raise Disturbance("others compute here")
        return "heat" if len(self.asked) == self.slow else None


@pytest.fixture
def watched(monkeypatch):
    """A block of two quads of this metric, by this watch."""

    def run(watch: Watched, metric: str = "runtime", *, swallow: bool = False):
        monkeypatch.setattr(body_module, "watch_of", lambda kind, waiting, **more: watch)

        def body(acf):
            try:
                acf.measure(lambda: None) if metric == "runtime" else acf.record(**{metric: 1.0})
            except Exception:
                if not swallow:
                    raise

        plan = BlockPlan("baseline", ("ABBA", "BAAB"), 1)
        return run_block(benchmark(metric), body, ARMS, Workload("default"), plan, lambda: None)

    return run


@pytest.mark.parametrize("metric", ["runtime", "throughput"])
def test_a_block_is_watched_from_before_its_first_sample_until_its_end(watched, metric):
    watch = Watched(slow=2)
    block = watched(watch, metric)

    assert watch.asked == ["before", "quad", "quad", "after", "free"]
    assert [slot.dropped for slot in block.slots[metric]] == [True] * 4 + [False] * 4
    assert block.remarks == ("nobody looked",)


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("metric", ["runtime", "throughput"])
@pytest.mark.parametrize("seen", [1, 2, 3, 4])
def test_a_neighbour_is_nobodys_fault_and_nothing_is_handed_over_whatever_the_body_catches(
    watched, metric, seen, swallow
):
    watch = Watched(seen)

    with pytest.raises(ArmFailure, match=r"^others compute here$") as caught:
        watched(watch, metric, swallow=swallow)
    assert (caught.value.arm, caught.value.kind) == (None, "disturbed")
    assert watch.asked[-1] == "free"
