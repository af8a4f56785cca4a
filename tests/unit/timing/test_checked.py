"""What is looked at between samples, on Python callables over memory that the arms share or own."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from pytest_compileiq.rules.gate import LOOKS, QUADS, SAMPLES
from pytest_compileiq.samples import ChecksMade, SlotStart
from pytest_compileiq.timing import clock, sampler
from pytest_compileiq.timing.checked import (
    CHECKED_CALLS,
    CheckedArm,
    CheckedBlock,
    CheckFailed,
    MeasureArguments,
    asked_for,
)
from pytest_compileiq.timing.clock import CpuClock, store_rate
from pytest_compileiq.timing.sampler import BlockPlan, Timed, plan_block, sample_calls

X = np.arange(1, 9, dtype=np.float32)


def plan_of(number: int, random: Random | None = None) -> BlockPlan:
    """As a proof plans its process of that number."""
    calls = CHECKED_CALLS if number % 2 == 0 else 0
    return plan_block(random or Random(number), quads=QUADS, samples=SAMPLES, checked_calls=calls)


class Clock(CpuClock):
    """Takes no time, so that samples are of as many calls as there are ``repeats``."""

    def __init__(self, repeats: int = 1) -> None:
        self.repeats = repeats

    def seconds(self, call, repeats):
        for _ in range(repeats):
            call()
        return self.shortest_s / self.repeats

    sample = seconds


def block(baseline, tuned, *, plan=None, repeats=1, **given) -> CheckedBlock:
    """Both callables sampled by ``plan``, with what ``measure`` is given: for both, or (baseline's, tuned's)."""
    arms = {}
    for place, (arm, call) in enumerate((("baseline", baseline), ("tuned", tuned))):
        own = {name: value[place] if isinstance(value, tuple) else value for name, value in given.items()}
        asked = asked_for(own.get("outputs", ()), own.get("check"), own.get("reset"))
        arms[arm] = CheckedArm(Timed(arm, call, Clock(repeats), lambda: None, asked.reset), asked)
    checked = CheckedBlock(plan or plan_of(0), arms)
    checked.learn()
    sample_calls(checked.plan, {arm: own.timed for arm, own in arms.items()}, after_slot=checked.after_slot)
    return checked


def failure_of(*arguments, **given) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        block(*arguments, **given)
    return caught.value


def doubling(out: np.ndarray, when: Callable[[int], bool] = lambda call: True, otherwise: float = 3) -> Callable:
    """Writes twice ``X``, or in calls for which ``when`` is false another multiple."""
    calls = itertools.count(1)

    def call():
        out[:] = X * (2 if when(next(calls)) else otherwise)
        return "given"

    return call


@pytest.fixture(autouse=True)
def _no_garbage_is_collected(monkeypatch):
    """That takes longer than all the calls of a block."""
    monkeypatch.setattr(sampler, "_quiet", contextlib.nullcontext)


@pytest.fixture
def out() -> np.ndarray:
    return np.full_like(X, 7)


# ── how much is looked at ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("period", [2, 3, 6, 7, 48, 50, 63, 64])
def test_what_is_wrong_in_every_nth_call_is_found_in_the_first_process_of_a_proof(out, period):
    for repeats, phase in itertools.product((1, 8), (0, period // 2)):
        wrong = doubling(out, lambda call, phase=phase: (call + phase) % period != 0)
        failed = failure_of(doubling(out), wrong, outputs=[out], repeats=repeats)
        assert failed.arm == "tuned"


def test_what_is_wrong_once_in_fifty_calls_by_chance_is_found_by_the_first_look_in_99_of_100():
    for seed in range(20):
        random = Random(seed)
        plans = [plan_of(number, random) for number in range(LOOKS[0])]
        tuned = [
            1 + further for plan in plans for slot, further in plan.checks.items() if "".join(plan.quads)[slot] == "B"
        ]
        assert 0.98 ** sum(tuned) < 0.01


def test_half_of_each_arms_slots_are_looked_at_and_the_seed_gives_the_coins_that_it_gave():
    plan = plan_of(0)
    letters = "".join(plan.quads)
    assert [sum(letters[slot] == arm for slot in plan.checks) for arm in "AB"] == [4, 4]
    assert sorted(plan.checks.values()) == [0] * 6 + [CHECKED_CALLS] * 2
    after, coins = Random(0), Random(0)
    plan_of(0, after)
    assert [coins.random() for _ in range(1 + QUADS + 1)][-1] == after.random()


def test_checks_are_counted_of_the_tuned_arm(out):
    checked = block(doubling(out), doubling(out), outputs=[out])
    assert checked.made == ChecksMade("outputs", 4 + CHECKED_CALLS, 4)


def test_without_outputs_or_a_check_nothing_is_called_that_is_not_sampled(out):
    calls = []
    checked = block(lambda: calls.append("baseline"), lambda: calls.append("tuned"))
    assert checked.made is None
    assert calls.count("tuned") == 1 + 3 + 1 * (SAMPLES + 1) * QUADS * 2


# ── what an arm writes ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_call_leaves_alone_keeps_what_it_holds_and_the_rest_is_overwritten_before_the_last_call(out):
    def call():
        seen.append(out.copy())
        out[2:6] = X[2:6]

    seen: list[np.ndarray] = []
    checked = block(call, call, outputs=[out])
    checked.last("tuned")
    assert out.tolist() == [7, 7, 3, 4, 5, 6, 7, 7]
    assert np.isnan(seen[-1][2:6]).all()


def test_memory_of_its_own_or_of_both_is_the_same(out):
    own = out.copy()
    checked = block(doubling(out), doubling(own), outputs=([out], [own]))
    assert checked.last("tuned") == checked.last("baseline") == "given"
    assert (out == 2 * X).all() and (own == 2 * X).all()


def test_an_arm_that_writes_nothing_is_not_taken_for_the_other_whose_output_it_leaves(out):
    failed = failure_of(doubling(out), lambda: None, outputs=[out])
    assert (failed.arm, "leaves outputs[0] as it finds it" in failed.reason) == ("tuned", True)


def test_an_arm_that_leaves_a_part_which_the_other_writes_is_wrong(out):
    def half():
        out[:6] = 2 * X[:6]

    failed = failure_of(doubling(out), half, outputs=[out])
    assert failed.arm == "tuned"
    assert "leaves 8 of 32 bytes of outputs[0] unwritten that the baseline writes" in failed.reason
    block(half, doubling(out), outputs=[out])  # more than the baseline is what the test's assertions judge


def test_where_a_check_decides_an_arm_may_write_less_and_finds_nothing_of_the_others_there(out):
    def writes(count):
        def call():
            out[:count] = count

        return call

    def check():
        assert (out[:4] == out[0]).all() and out[0] >= 4

    checked = block(writes(6), writes(4), outputs=[out], check=check)
    checked.last("baseline")
    checked.last("tuned")
    assert (out[:4] == 4).all() and np.isnan(out[4:6]).all() and (out[6:] == 7).all()


def test_a_call_that_writes_nothing_in_every_nth_call_is_found_although_the_output_stays_right(out):
    calls = itertools.count(1)

    def stale():
        if next(calls) % 50:
            out[:] = 2 * X

    failed = failure_of(doubling(out), stale, outputs=[out])
    assert failed.arm == "tuned"


def test_where_a_check_decides_outputs_need_not_repeat_but_have_to_be_written(out):
    draws = Random(1)

    def call():
        out[:] = draws.random()

    def check():
        assert 0 <= out[0] < 1

    assert block(call, call, outputs=[out], check=check).made.by == "check"
    assert "leaves outputs[0] as it finds it" in failure_of(call, lambda: None, outputs=[out], check=check).reason


def test_a_check_that_raises_is_told(out):
    def check():
        assert out[0] == 2, "far off"

    failed = failure_of(doubling(out), doubling(out, lambda call: call % 50 != 0), check=check)
    assert failed.arm == "tuned"
    assert failed.reason.startswith("check= fails after a timed call: AssertionError: far off")
    assert failure_of(doubling(out, otherwise=4, when=lambda call: False), doubling(out), check=check).arm == "baseline"


@pytest.mark.parametrize("period", [10, 50])
def test_an_output_that_differs_is_told_with_its_place_alike_in_every_run(out, period):
    calls = itertools.count(1)

    def wrong():
        out[:] = 2 * X
        if next(calls) % period == 0:
            out[5] = 1

    failed = failure_of(doubling(out), wrong, outputs=[out])
    assert failed.reason == (
        "outputs[0] is not the same after every call: 1 of 8 values, the first at index 5, differ from the first "
        "checked call's"
    )


def test_a_call_that_writes_the_first_time_alone_leaves_the_output_as_it_finds_it(out):
    calls = itertools.count()

    def stale():
        if next(calls) == 0:
            out[:] = 2 * X

    failed = failure_of(doubling(out), stale, outputs=[out])
    assert (failed.arm, "leaves outputs[0] as it finds it" in failed.reason) == ("tuned", True)


def test_outputs_that_do_not_repeat_in_the_baseline_either_are_not_the_tuned_arms_fault(out):
    steady = iter([True] * 25)  # until the baseline has been looked at in its last slot, and no longer
    failed = failure_of(doubling(out, lambda call: next(steady, False)), doubling(out, lambda call: call < 8),
                        outputs=[out], plan=BlockPlan("baseline", ("AAAA", "BBBB"), 1, checks={7: 0}))  # fmt: skip
    assert failed.arm == "baseline"
    assert "as with atomics" in failed.reason and "check=" in failed.reason


def test_the_baseline_is_doubted_too_where_nothing_was_sampled(out):
    steady = iter([True] * 2)
    calls = {
        "baseline": doubling(out, lambda call: next(steady, False), otherwise=5),
        "tuned": doubling(out, lambda call: call < 3),
    }
    arms = {
        arm: CheckedArm(Timed(arm, call, Clock(), lambda: None), asked_for([out], None, None))
        for arm, call in calls.items()
    }
    with pytest.raises(CheckFailed, match="as with atomics") as caught:
        CheckedBlock(plan_of(0), arms).last("tuned")
    assert caught.value.arm == "baseline"


def test_a_call_that_works_on_after_it_has_returned_only_enqueues(out, monkeypatch):
    queue: list[int] = []

    def finish(_seconds: float) -> None:
        out[:] = 2 * X

    monkeypatch.setattr(time, "sleep", finish)  # whoever waits finds the work done
    failed = failure_of(doubling(out), lambda: queue.append(1), outputs=[out])
    assert (failed.arm, "only enqueues its work" in failed.reason) == ("tuned", True)


# ── kernels that work in place ───────────────────────────────────────────────────────────────────────────────────


def in_place(out: np.ndarray) -> list[Callable]:
    def add():
        out[:] += 1

    return [out.sort, add]


@pytest.mark.parametrize("kernel", [0, 1], ids=["sorts", "adds"])
def test_a_call_that_works_on_its_own_output_is_named_and_reset_is_the_remedy(out, kernel):
    call, given = in_place(out)[kernel], X[::-1].copy()

    def reset():
        out[:] = given

    failed = failure_of(call, call, outputs=[out])
    assert failed.arm == "baseline" and "give measure(reset=…)" in failed.reason
    checked = block(call, call, outputs=[out], reset=reset)
    checked.last("tuned")
    reset()
    expected = sorted(given) if kernel == 0 else given + 1
    call()
    assert out.tolist() == list(expected)


def test_an_arm_that_leaves_the_output_as_reset_left_it_is_wrong_unless_the_baseline_does_too(out):
    def block_of(call, given):
        return block(call, lambda: None, outputs=[out], reset=lambda: np.copyto(out, given))

    for call in in_place(out):
        with pytest.raises(
            CheckFailed, match=r"leaves outputs\[0\] as reset= left it, which the baseline does not"
        ) as got:
            block_of(call, X[::-1].copy())
        assert got.value.arm == "tuned"
    block_of(out.sort, X)  # has nothing to do


def test_a_reset_that_restores_too_little_is_named(out):
    call = in_place(out)[1]

    def reset():
        out[:4] = 0

    assert "reset= does not restore all of it" in failure_of(call, call, outputs=[out], reset=reset).reason


def test_reset_comes_before_every_call_and_a_sample_is_then_of_one():
    events: list[str] = []
    block(lambda: events.append("b"), lambda: events.append("t"), reset=lambda: events.append("reset"), repeats=100)
    assert events[::2] == ["reset"] * (len(events) // 2)
    assert events.count("t") == 1 + (SAMPLES + 1) * QUADS * 2


def test_what_reset_raises_is_called_so():
    from pytest_compileiq.timing.sampler import ArmError

    timed = Timed("tuned", lambda: None, CpuClock(), lambda: None, reset=lambda: 1 / 0)
    with pytest.raises(ArmError) as caught:
        CheckedArm(timed, MeasureArguments()).last()
    assert caught.value.what == "reset="


# ── the single calls that slots begin with ───────────────────────────────────────────────────────────────────────


def started(baseline, tuned, *, number=0, **given) -> dict[str, list[SlotStart]]:
    """Both callables sampled as in a proof: the single calls of each arm."""
    plan = plan_block(Random(number), quads=QUADS, samples=SAMPLES, starts=True)
    arms = {}
    for arm, call in (("baseline", baseline), ("tuned", tuned)):
        asked = asked_for(given.get("outputs", ()), given.get("check"), given.get("reset"))
        arms[arm] = CheckedArm(Timed(arm, call, Clock(), lambda: None, asked.reset), asked)
    checked = CheckedBlock(plan, arms)
    checked.learn()
    timed = {arm: own.timed for arm, own in arms.items()}
    slots = sample_calls(plan, timed, after_slot=checked.after_slot, before_slot=checked.before_slot)
    return {arm: [slot.start for slot in slots if slot.arm == arm] for arm in arms}


def test_start_of_each_slot_is_dealt_by_chance_and_leaves_the_coins_alone():
    dealt = [plan_block(Random(seed), quads=QUADS, samples=SAMPLES, starts=True) for seed in range(20)]
    for seed, plan in enumerate(dealt):
        letters = "".join(plan.quads)
        for arm in "AB":
            kinds = sorted(kind for slot, kind in plan.starts.items() if letters[slot] == arm)
            assert kinds == ["dirty"] * 3 + ["pause"] * 2 + ["sham"] * 3
        without = plan_block(Random(seed), quads=QUADS, samples=SAMPLES)
        assert (plan.outer, plan.quads, plan.checks) == (without.outer, without.quads, without.checks)
    assert len({tuple(plan.starts.items()) for plan in dealt}) == 20


def test_dirty_call_finds_other_bytes_everywhere_and_a_sham_the_same(out):
    found = []

    def call():
        found.append(out.view(np.uint8).copy())
        out[:7] = 2 * X[:7]  # the last value is not its own

    kinds = [start.kind for start in started(call, call, outputs=[out])["tuned"]]
    assert sorted(kinds) == ["dirty"] * 3 + ["pause"] * 2 + ["sham"] * 3
    found, written = found[4:], (2 * X[:7]).view(np.uint8)  # the first two of each arm were on poison
    assert all((seen[28:] == X[6:7].view(np.uint8)).all() for seen in found)
    dirty = [seen for seen in found if (seen[:28] != written).any()]
    assert len(dirty) == 2 * 3 and all((seen[:28] != written).all() for seen in dirty)
    assert len({seen.tobytes() for seen in dirty}) > 1, "the bytes are drawn"


def test_dirty_call_that_does_not_work_is_wrong(out):
    calls = itertools.count()

    def once_learnt_idle():
        if next(calls) < 6:
            out[:] = 2 * X

    with pytest.raises(CheckFailed, match=r"outputs\[0\] is not the same after every call"):
        started(doubling(out), once_learnt_idle, outputs=[out])


def test_without_outputs_slots_begin_with_pauses_alone(out):
    bare = {start.kind for start in started(doubling(out), doubling(out))["tuned"] if start}
    guarded = {start.kind for start in started(doubling(out), doubling(out), reset=lambda: None)["tuned"] if start}
    assert (bare, guarded) == ({"bare"}, {"pause"})


# ── a speed that nothing can have ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("size", "call_s", "caught"), [
    (1 << 20, 1e-6, True), (1 << 20, 4e-6, False), (4095, 1e-9, False), (4096, 1e-9, True),
])  # fmt: skip
def test_more_bytes_than_a_processor_stores_are_no_work(monkeypatch, size, call_s, caught):
    monkeypatch.setattr(clock, "store_rate", lambda: 100e9)
    written = np.zeros(size, np.uint8)
    asked = asked_for([written], None, None)
    arm = CheckedArm(Timed("tuned", lambda: written.fill(7), Clock(), lambda: None), asked)
    arm.learn()
    said = r"did not do its work: .* GB/s; the limit is 400 GB/s, 4 times the fastest store here"
    with pytest.raises(CheckFailed, match=said) if caught else contextlib.nullcontext():
        arm.expect_possible(call_s)


def test_bytes_that_a_call_does_not_write_are_not_counted(monkeypatch, out):
    monkeypatch.setattr(clock, "store_rate", lambda: 1.0)
    written = np.zeros(1 << 13, np.uint8)
    arm = CheckedArm(
        Timed("tuned", lambda: written[:4095].fill(7), Clock(), lambda: None), asked_for([written], None, None)
    )
    arm.learn()
    arm.expect_possible(1e-9)


def test_rate_of_stores_is_one_that_a_processor_has():
    assert 100e9 <= store_rate() < 1e13
