"""What ``measure`` does around a body: whose callable runs last, and who is to blame, on Python callables."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from pytest_compileiq.benchmark import block as block_module
from pytest_compileiq.benchmark.block import run_block
from pytest_compileiq.benchmark.body import ArmFailure, Bodies, check_body
from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import Objective, Workload
from pytest_compileiq.replay.committed import Stop
from pytest_compileiq.rules.stopping import Race, Stepping
from pytest_compileiq.samples import ChecksMade
from pytest_compileiq.timing.sampler import BlockPlan, Disturbance, Slot, Watch
from pytest_compileiq.workers.messages import CheckTask, DrawTask, FailureAnswer
from pytest_compileiq.workers.tasks import serve

ARMS = {"baseline": None, "tuned": None}
ORDERS = [(outer, quad) for outer in ("baseline", "tuned") for quad in ("ABBA", "BAAB")]


def benchmark(*metrics: str) -> SimpleNamespace:
    """As much of a benchmark as a body needs that builds nothing."""
    objectives = tuple(Objective(metric, "minimize") for metric in metrics or ("runtime",))
    spec = SimpleNamespace(workloads=(Workload("default"),), repeats=True)  # no first calls are timed
    return SimpleNamespace(
        spec=spec, builds=None, builder=SimpleNamespace(clock="cpu"), timed_objectives=objectives,
        device_kind=lambda metric: "cpu",
    )  # fmt: skip


def block(body, outer="baseline", quad="ABBA", tick=lambda: None, metric="runtime"):
    return run_block(Bodies(benchmark(metric), body, ARMS, Workload("default"), tick), BlockPlan(outer, (quad,), 1))


def test_check_body_fault_of_the_machine_blames_no_arm():
    def get(controls):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), "/tmp/kernel.so")

    without_room = SimpleNamespace(**vars(benchmark()) | {"builds": SimpleNamespace(get=get)})
    with pytest.raises(ArmFailure) as caught:
        check_body(Bodies(without_room, lambda acf: acf.build(), ARMS, Workload("default")))
    assert (caught.value.arm, caught.value.kind) == (None, "disturbed")
    assert caught.value.reason.startswith("File too large (/tmp/kernel.so): raise the limit")
    with pytest.raises(EnvironmentFault, match="ulimit -f unlimited"):
        raise Stop.wrong(caught.value, "the committed controls", "default")


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
    check_body(Bodies(benchmark(), lambda acf: acf.measure(lambda: calls.append(acf.arm)), ARMS, Workload("default")))

    assert calls == ["tuned"]


def test_a_watcher_sees_progress_before_each_call_that_is_no_sample():
    events = []

    def body(acf):
        acf.measure(lambda: events.append("call"))
        events.append("asserts")

    block(body, tick=lambda: events.append("tick"))

    last = [events[place - 2 : place] for place, event in enumerate(events) if event == "asserts"]
    assert last == [["tick", "call"], ["tick", "call"]]


@pytest.mark.parametrize("task", [CheckTask("default", None), DrawTask("default", None, 1)])
def test_a_watcher_sees_progress_before_each_run_and_each_call_that_is_not_timed(task):
    events, out = [], np.zeros(8)

    def call():
        events.append("call")
        out[:] = 1

    def body(acf):
        events.append("run")
        acf.measure(call, outputs=[out])
        acf.compare("out", out)

    answer = serve(benchmark(), body, task, lambda: events.append("tick"))
    assert not isinstance(answer, FailureAnswer)
    assert events[::2] == ["tick"] * (len(events) // 2)
    assert events.count("call") == 3 * events.count("run") > 3


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
        run_block(Bodies(timed, body, ARMS, Workload("default")), BlockPlan("baseline", ("ABBA",), 1))
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

    def ask(self, what: str) -> str | None:
        self.asked.append(what)
        if len(self.asked) == self.seen:
            raise Disturbance("others compute here")
        return "heat" if len(self.asked) == self.slow else None


@pytest.fixture
def watched(monkeypatch):
    """A block of two quads of this metric, by this watch."""

    def run(watch: Watched, metric: str = "runtime", *, swallow: bool = False):
        monkeypatch.setattr(block_module, "watch_of", lambda kind, waiting, **more: watch)

        def body(acf):
            try:
                acf.measure(lambda: None) if metric == "runtime" else acf.record(**{metric: 1.0})
            except Exception:
                if not swallow:
                    raise

        plan = BlockPlan("baseline", ("ABBA", "BAAB"), 1)
        return run_block(Bodies(benchmark(metric), body, ARMS, Workload("default")), plan)

    return run


@pytest.mark.parametrize("metric", ["runtime", "throughput"])
def test_a_block_is_watched_from_before_its_first_sample_until_its_end(watched, metric):
    watch = Watched(slow=2)
    block = watched(watch, metric)

    assert watch.asked == ["before", "quad", "quad", "quad", "free"]
    assert [slot.dropped for slot in block.slots[metric]] == [True] * 4 + [False] * 4
    assert block.remarks == ("nobody looked",)


def test_block_observed_by_a_monitoring_tool_is_disturbed(watched, monkeypatch):
    monkeypatch.setattr(sys, "monitoring", SimpleNamespace(get_tool={1: "coverage"}.get), raising=False)
    with pytest.raises(ArmFailure, match="tools observe the timed calls: coverage; disable them") as caught:
        watched(Watched())
    assert (caught.value.arm, caught.value.kind) == (None, "disturbed")


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


# ── what is asked of measure ─────────────────────────────────────────────────────────────────────────────────────


def alone(body):
    return check_body(Bodies(benchmark(), body, ARMS, Workload("default")))


@pytest.mark.parametrize(("outer", "quad"), ORDERS)
def test_measure_returns_what_this_arms_last_call_returned(outer, quad):
    given = {}

    def body(acf):
        given[acf.arm] = acf.measure(acf.arm.upper)

    block(body, outer, quad)
    assert given == {"baseline": "BASELINE", "tuned": "TUNED"}
    alone(body)
    assert given["tuned"] == "TUNED"


def by_assert(right: bool) -> None:
    assert right, "it is wrong"


def by_pytest(right: bool) -> None:
    if not right:
        pytest.fail("it is wrong")  # raises what is no Exception


@pytest.mark.parametrize(
    ("what", "judge"), [("check", by_assert), ("check", by_pytest), ("reset", by_pytest), ("call", by_pytest)]
)
@pytest.mark.parametrize("arm", ["baseline", "tuned"])
def test_what_fails_between_the_samples_is_the_fault_of_its_arm_not_of_the_body_around_it(arm, what, judge):
    def body(acf):
        def fail():
            judge(acf.arm != arm)

        given = {"call": lambda: None, what: fail}
        acf.measure(given.pop("call"), **given)

    plan = BlockPlan(arm, ("ABBA",), 1, checks=dict.fromkeys(range(4), 0))
    with pytest.raises(ArmFailure, match="it is wrong") as got:
        run_block(Bodies(benchmark(), body, ARMS, Workload("default")), plan)
    assert (got.value.arm, got.value.kind) == (arm, "wrong")


@pytest.mark.parametrize("arm", ["baseline", "tuned"])
@pytest.mark.parametrize("outer", ["baseline", "tuned"])
def test_a_check_between_the_samples_that_fails_is_its_arms_failure_whatever_the_body_catches(outer, arm):
    calls = []

    def body(acf):
        def check():
            assert calls[-1] != arm or len(calls) < 9, "it is wrong"

        with contextlib.suppress(Exception):
            acf.measure(lambda: calls.append(acf.arm), check=check)

    with pytest.raises(ArmFailure, match=r"check= fails after a timed call: AssertionError: it is") as got:
        block(body, outer, "ABBA")
    assert (got.value.arm, got.value.kind) == (arm, "wrong")


def test_in_a_single_arm_the_tests_own_exception_is_what_is_raised():
    def body(acf):
        acf.measure(lambda: None, check=lambda: 1 / 0)

    with pytest.raises(ArmFailure, match="ZeroDivisionError") as caught:
        alone(body)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_single_arm_is_held_to_its_outputs_too():
    out = bytearray(8)
    with pytest.raises(ArmFailure, match=r"leaves outputs\[0\] as it finds it"):
        alone(lambda acf: acf.measure(lambda: None, outputs=[out]))


def test_what_the_checks_were_is_handed_over_with_the_samples():
    out = bytearray(8)

    def body(acf):
        acf.measure(lambda: out.__setitem__(slice(None), b"12345678"), outputs=[out])
        assert out == b"12345678"

    plan = BlockPlan("baseline", ("ABBA",), 1, checks={1: 5, 3: 0})
    blocked = run_block(Bodies(benchmark(), body, ARMS, Workload("default")), plan)
    assert blocked.checks == {"runtime": ChecksMade("outputs", 6, 1)}


def test_what_a_call_writes_is_learnt_once_however_many_objectives_are_sampled():
    out, learnt = np.zeros(8), []

    def body(acf):
        def call():
            if not out.view(np.uint8).any():  # only then are the outputs overwritten with zero
                learnt.append(acf.arm)
            out[:] = 1

        out[:] = 1
        acf.measure(call, outputs=[out])

    two = benchmark("runtime", "runtime@p95")
    blocked = run_block(Bodies(two, body, ARMS, Workload("default")), BlockPlan("baseline", ("ABBA",), 1))
    assert list(blocked.checks) == ["runtime", "runtime@p95"]
    assert sorted(learnt) == ["baseline", "tuned"]


def test_single_calls_too_short_for_the_clock_are_told_in_one_sentence_for_all_blocks():
    told = {block(lambda acf, n=n: acf.measure(lambda: sum(range(n)), reset=list)).remarks for n in (1, 50)}
    (said,) = told.pop()
    assert not told and "with reset= each sample is one call, and one of less than 5 µs is short" in said
    assert block(lambda acf: acf.measure(lambda: time.sleep(1e-4), reset=list)).remarks == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"check": lambda result: result},
            r"acf.measure\(check=…\): it is called without arguments, but is missing a required argument: 'result'; ",
        ),
        ({"check": 3}, r"acf.measure\(check=3\): expected a callable without arguments"),
        ({"reset": "x"}, r"acf.measure\(reset='x'\): expected a callable"),
        ({"outputs": [3]}, r"outputs\[0\] is int\(3\): expected arrays"),
        ({"reset": list, "l2": "warm"}, "reset= would run between the calls that are to be warm"),
    ],
)
def test_what_measure_cannot_use_is_refused(given, said):
    with pytest.raises(ArmFailure, match=said):
        alone(lambda acf: acf.measure(lambda: None, **given))


def test_a_body_that_records_has_nothing_to_look_at():
    with pytest.raises(ArmFailure, match=r"outputs= is for acf.measure; a body that times itself checks itself"):
        alone(lambda acf: acf.record(runtime=1.0, outputs=[bytearray(3)]))


# ── a race ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("tuned", "quads"), [(0.5, 3), (0.9, 1)])
@pytest.mark.parametrize("outer", ["baseline", "tuned"])
def test_a_block_goes_on_after_its_first_quad_while_a_race_is_not_lost(outer, tuned, quads):
    def body(acf):
        acf.record(loss=tuned if acf.arm == "tuned" else 1.0, rate=1.0)

    races = {"loss": Race(Stepping("loss", "minimize"), -0.2), "rate": Race(Stepping("rate", "maximize"), 0.0)}
    plan = BlockPlan(outer, ("ABBA", "BAAB", "ABBA"), 2, races=races)
    blocked = run_block(Bodies(benchmark("loss", "rate"), body, ARMS, Workload("default")), plan)
    for metric in ("loss", "rate"):
        assert {slot.quad for slot in blocked.slots[metric]} == set(range(quads))


def test_a_race_on_time_ends_a_block_too():
    def body(acf):
        acf.measure(lambda: None)

    lost = Race(Stepping("runtime", "minimize"), -60.0)  # nothing is so much faster
    plan = BlockPlan("baseline", ("ABBA", "BAAB"), 1, races={"runtime": lost})
    blocked = run_block(Bodies(benchmark("runtime"), body, ARMS, Workload("default")), plan)
    assert len(blocked.slots["runtime"]) == 4


def test_a_disturbed_quad_decides_no_race():
    slots = [Slot(0, number, arm, (1.0,), dropped=True) for number, arm in enumerate(("baseline", "tuned") * 2)]
    plan = BlockPlan("baseline", ("ABBA",), 1, races={"runtime": Race(Stepping("runtime", "minimize"), -60.0)})
    assert not plan.is_lost("runtime", slots)
    assert plan.is_lost("runtime", [replace(slot, dropped=False) for slot in slots])
