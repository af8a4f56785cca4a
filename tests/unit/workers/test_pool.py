"""Workers of a run, driven by a fake carrier: who is started when, who is replaced, and whose fault what was."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from pytest_compileiq import minimize
from pytest_compileiq.benchmark.block import BlockAnswer
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.benchmark.builds import Afar
from pytest_compileiq.benchmark.cached_builds import identity_of_compiler
from pytest_compileiq.errors import NoWorker
from pytest_compileiq.model import Candidate, Workload
from pytest_compileiq.samples import Conditions
from pytest_compileiq.testing import FakeBuilder, FakeCarrier, fake_benchmark, obedient
from pytest_compileiq.timing.clock import Device, Measures, cpu_device
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.workers import pool as pool_module
from pytest_compileiq.workers.messages import (
    BlockTask,
    CheckTask,
    Enter,
    Entered,
    Failed,
    FailureAnswer,
    Left,
    Ready,
    Start,
)
from pytest_compileiq.workers.pool import EvaluationFailed, Pool, asked_again
from pytest_compileiq.workers.tasks import pack_builder
from pytest_compileiq.workers.transport import WorkerDied

TOUCHED = Touched(frozenset(), frozenset())
START = Start(".", ("test_kernel.py::test_kernel",), {}, (), (None,), {})
WORKLOAD = Workload("default")
CHECK = CheckTask("default", None)
PLAN = BlockPlan("baseline", ("ABBA",), 2)


def pool_of(carrier: FakeCarrier) -> Pool:
    return Pool(START, carrier)


def answering(**answers):
    """A carrier whose workers say otherwise to one kind of order, the first time it comes: ``Enter=Failed("…")``."""
    left = dict(answers)

    def answer(worker, order):
        return left.pop(type(order).__name__, None) or obedient(order)

    return FakeCarrier(answer)


@pytest.fixture
def benchmark(tmp_path):
    return fake_benchmark(tmp_path, FakeBuilder())


@pytest.fixture
def other(tmp_path):
    return replace(fake_benchmark(tmp_path, FakeBuilder()), nodeid="test_kernel.py::test_other")


def test_workers_are_started_side_by_side_and_then_entered(benchmark):
    carrier = FakeCarrier()
    pool_of(carrier).prepare(range(3), benchmark)
    assert carrier.said == [*(("Start", n) for n in range(3)), *(("Enter", n) for n in range(3))]


def test_a_worker_stays_in_its_test_from_task_to_task_and_leaves_it_for_another(benchmark, other):
    carrier = FakeCarrier()
    pool = pool_of(carrier)
    for which in (benchmark, benchmark, other):
        pool.ask(0, which, CHECK)
    assert [what for what, _ in carrier.said] == [
        "Start", "Enter", "CheckTask", "CheckTask", "Leave", "Enter", "CheckTask",
    ]  # fmt: skip


def on_unit(unit: str) -> FakeCarrier:
    def answer(worker, order):
        given = obedient(order)
        return msgspec.structs.replace(given, units={"runtime": unit}) if isinstance(given, BlockAnswer) else given

    return FakeCarrier(answer, devices=3)


def test_samples_say_which_device_their_worker_ran_on_and_a_pool_how_many_there_are(benchmark):
    pool = pool_of(on_unit("GPU-1a2b3c4d-0000"))
    rows = pool.block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN).rows
    assert {row.unit for row in rows} == {"GPU-1a2b3c4d-0000"} and pool.devices == 3
    silent = pool_of(FakeCarrier()).block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN).rows
    assert {row.unit for row in silent} == {""}


@pytest.mark.parametrize("unit", ["a b", "x" * 65, "../x", "x\n", "\x1b[2J"])
def test_a_device_whose_name_is_none_is_no_device(benchmark, unit):
    with pytest.raises(EvaluationFailed, match="which is no name") as caught:
        pool_of(on_unit(unit)).block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)
    assert (caught.value.arm, caught.value.kind) == (None, "crash")


def test_a_block_is_sampled_alone_on_the_device_and_a_check_is_not(benchmark):
    carrier = FakeCarrier()
    block = pool_of(carrier).block(2, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)
    assert [(row.process, row.arm, row.sample, row.value) for row in block.rows[:3]] == [
        (2, "baseline", 0, 1e-3), (2, "baseline", 1, 1e-3), (2, "tuned", 0, 1e-3),
    ]  # fmt: skip
    assert block.touched == Touched(frozenset({"kernel"}), frozenset())
    assert carrier.said[0] == ("alone", ("cpu",)) and ("BlockTask", 0) in carrier.said
    carrier.said.clear()
    pool_of(carrier).ask(0, benchmark, CHECK)
    assert "alone" not in [what for what, _ in carrier.said]


def test_a_call_that_launches_on_another_model_of_gpu_is_nobodys_claim(benchmark):
    def answer(worker, order):
        taken = Conditions("A100", "graph", "flush", all_streams=False, empty_s=2e-6)
        said = obedient(order)
        return msgspec.structs.replace(said, conditions={"runtime": taken}) if isinstance(order, BlockTask) else said

    with pytest.raises(
        EvaluationFailed, match=r"launched on A100, and this run is for .*: CUDA_VISIBLE_DEVICES"
    ) as failed:
        pool_of(FakeCarrier(answer)).block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)
    assert (failed.value.arm, failed.value.kind) == ("baseline", "wrong")


def test_all_blocks_of_a_workload_are_launched_as_its_first_one_was(benchmark):
    launches, here = [], benchmark.device("runtime").name

    def answer(worker, order):
        if isinstance(order, BlockTask):
            launches.append(order.plan.launch)
            taken = Conditions(here, "graph", "flush", all_streams=False, empty_s=2e-6)
            return msgspec.structs.replace(obedient(order), conditions={"runtime": taken})
        return obedient(order)

    pool = pool_of(FakeCarrier(answer))
    arms = {"baseline": None, "tuned": None}
    for number in (0, 1):
        assert pool.block(number, benchmark, arms, WORKLOAD, PLAN).conditions["runtime"].launch == "graph"
    pool.block(0, benchmark, arms, WORKLOAD, replace(PLAN, launch="eager"))  # a claim's replay says how
    assert launches == [None, "graph", "eager"]


def afar(benchmark, **changes):
    """A carrier to another machine, which makes the same of the marker but for ``changes``."""
    here = benchmark.builder
    entered = Entered(
        **{"target": here.target, "command": tuple(here.compiler.command), "processor": cpu_device().name} | changes
    )
    orders = []

    def answer(worker, order):
        orders.append(order)
        return entered if isinstance(order, Enter) else obedient(order)

    return FakeCarrier(answer, shares_files=False), orders


def test_a_builder_travels_only_where_the_worker_sees_the_same_files(benchmark):
    for shares_files in (True, False):
        carrier, orders = afar(benchmark)
        carrier.shares_files = shares_files
        pool_of(carrier).ask(0, benchmark, CHECK)
        builders = [order.builder for order in orders if isinstance(order, Enter)]
        assert builders == [pack_builder(benchmark.builder) if shares_files else None]


def test_what_a_task_needs_is_built_here_and_brought_before_it_is_asked(benchmark):
    carrier, _ = afar(benchmark)
    arms = [benchmark.builder.render(Candidate({"-O": level})) for level in (1, 2)]
    pool_of(carrier).ask(0, benchmark, CheckTask("default", arms[0]))
    pool_of(carrier).block(0, benchmark, {"baseline": arms[0], "tuned": arms[1]}, WORKLOAD, PLAN)
    names = [benchmark.builds.made(controls).name for controls in (None, *arms)]
    said = [(what, which) for what, which in carrier.said if what in ("bring", "CheckTask", "BlockTask")]
    assert said == [
        ("bring", names[0]), ("bring", names[1]), ("CheckTask", 0), *(("bring", name) for name in names),
        ("BlockTask", 1),
    ]  # fmt: skip
    assert len(benchmark.builder.built) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target": "fake-fake2"}, "it builds for fake-fake2 (here fake-fake1)"),
        ({"command": ("fake", "-march=other")}, "it builds by 'fake -march=other' (here "),
        ({"processor": "another one"}, "it measures on another one, and this run on "),
        ({"native": "it needs AVX2, which this processor lacks"}, "it needs AVX2"),
    ],
)
def test_a_machine_that_makes_something_else_of_the_marker_is_refused(benchmark, changes, reason):
    carrier, _ = afar(benchmark, **changes)
    with pytest.raises(NoWorker):
        pool_of(carrier).ask(0, benchmark, CHECK)
    refused = [said for what, said in carrier.said if what == "refuse"]
    assert refused and all(said.startswith(f"{benchmark.nodeid}: {reason}") for said in refused)
    assert "CheckTask" not in [what for what, _ in carrier.said]


def test_the_time_of_a_compilation_is_taken_where_the_compiler_is_the_same_one(tmp_path):
    compiled = fake_benchmark(tmp_path, FakeBuilder(), objectives=[minimize("compile_time")])
    same, _ = afar(compiled, compiler=identity_of_compiler(compiled.builder.compiler))
    assert pool_of(same).ask(0, compiled, CHECK)
    other, _ = afar(compiled, compiler="fake 2.0 (other)")
    with pytest.raises(NoWorker, match=r"it compiles by fake 2\.0 \(other\) \(here fake "):
        pool_of(other).ask(0, compiled, CHECK)


def test_a_claim_is_for_the_device_that_is_measured_on_afar(benchmark):
    device = Device("far processor", "x")
    there = replace(benchmark, afar=Afar(measures={"cpu": Measures(device)}))
    carrier, _ = afar(benchmark, processor=device.name)
    block = pool_of(carrier).block(0, there, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)
    assert {row.device for row in block.rows} == {"far processor"}


def test_a_machine_that_cannot_set_the_test_up_is_refused_and_this_one_is_not(benchmark):
    for shares_files in (True, False):
        failed = Failed("setup: no compiler 'gcc'")
        carrier = FakeCarrier(
            lambda number, order: failed if isinstance(order, Enter) else obedient(order),  # noqa: B023
            shares_files=shares_files,
        )
        with pytest.raises(NoWorker, match="no compiler 'gcc'"):
            pool_of(carrier).ask(0, benchmark, CHECK)
        assert ("refuse" in [what for what, _ in carrier.said]) is not shares_files


def test_a_machine_that_starts_no_more_processes_is_a_fault_of_the_environment(benchmark):
    pool = pool_of(FakeCarrier(launches=1))
    with pytest.raises(NoWorker, match=r"says nothing about any controls: .*Resource temporarily unavailable"):
        pool.prepare(range(2), benchmark)


NOT_READY = {
    "it cannot collect": {"Start": Failed("ImportError: no module named x")},
    "it cannot set up": {"Enter": Failed("ImportError: no module named x")},
    "it dies before": {"Enter": WorkerDied("crash", "ImportError: no module named x")},
}


@pytest.mark.parametrize("why", NOT_READY)
def test_a_worker_that_gets_nowhere_is_no_verdict_and_is_not_used_again(benchmark, why):
    carrier = answering(**NOT_READY[why])
    pool = pool_of(carrier)
    with pytest.raises(NoWorker, match="no module named x"):
        pool.ask(0, benchmark, CHECK)
    assert carrier.said[-1] == ("kill", 0)
    pool.ask(0, benchmark, CHECK)
    assert ("Start", 1) in carrier.said


DEATHS = {
    "timeout": ("timeout", WorkerDied("timeout", "no progress for 3 s")),
    "crash": ("crash", WorkerDied("crash", "killed by SIGSEGV")),
    "noise": ("wrong", WorkerDied("wrong", "printed more than 8 MB")),
    "another test's end": ("crash", Left("call: it exited")),
    "an answer to something else": ("crash", Entered()),
    "no answer to the task": ("crash", Ready()),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_worker_that_does_not_survive_its_task_is_replaced_and_nobodys_arm_is_blamed(benchmark, how):
    kind, answer = DEATHS[how]
    carrier = answering(CheckTask=answer)
    pool = pool_of(carrier)
    with pytest.raises(EvaluationFailed) as failed:
        pool.ask(0, benchmark, CHECK)
    assert (failed.value.arm, failed.value.kind) == (None, kind)
    assert ("kill", 0) in carrier.said
    assert pool.ask(0, benchmark, CHECK) and ("Start", 1) in carrier.said


def test_an_answer_of_another_kind_than_the_task_asks_for_is_a_crash(benchmark):
    carrier = answering(BlockTask=TOUCHED)
    with pytest.raises(EvaluationFailed, match="answered Touched to a BlockTask"):
        pool_of(carrier).block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)


def test_a_failed_body_keeps_its_worker_and_says_whose_fault_it_is(benchmark):
    carrier = answering(CheckTask=FailureAnswer("tuned", "wrong", "1 != 2", poisoned=False))
    pool = pool_of(carrier)
    with pytest.raises(EvaluationFailed, match="1 != 2") as failed:
        pool.ask(0, benchmark, CHECK)
    assert (failed.value.arm, failed.value.kind) == ("tuned", "wrong")
    pool.ask(0, benchmark, CHECK)
    assert "kill" not in [what for what, _ in carrier.said]


def test_a_poisoned_worker_is_replaced_and_what_it_left_behind_is_killed_but_not_its_fellows(benchmark):
    carrier = answering(CheckTask=FailureAnswer("tuned", "crash", "left 1 process behind", poisoned=True))
    pool = pool_of(carrier)
    pool.prepare(range(3), benchmark)
    with pytest.raises(EvaluationFailed, match="left 1"):
        pool.ask(1, benchmark, CHECK)
    assert carrier.said[-2:] == [("kill", 1), ("sweep", (0, 2))]


def test_a_worker_that_dies_of_its_last_test_is_replaced_before_the_next(benchmark, other):
    carrier = answering(Leave=WorkerDied("crash", "killed by SIGSEGV"))
    pool = pool_of(carrier)
    pool.ask(0, benchmark, CHECK)
    pool.ask(0, other, CHECK)
    assert [what for what, _ in carrier.said] == [
        "Start", "Enter", "CheckTask", "Leave", "kill", "Start", "Enter", "CheckTask",
    ]  # fmt: skip


def test_the_end_dismisses_all_before_it_waits_for_one(benchmark):
    carrier = FakeCarrier()
    pool = pool_of(carrier)
    pool.prepare(range(2), benchmark)
    carrier.said.clear()
    pool.close()
    assert carrier.said == [
        ("Leave", 0), ("Quit", 0), ("Leave", 1), ("Quit", 1), ("close", 0), ("close", 1), ("sweep", ()),
    ]  # fmt: skip
    pool.close()
    assert carrier.said[-1] == ("sweep", ()) and len(carrier.said) == 8


def test_what_blocks_remark_is_kept_once_for_each_benchmark(benchmark, other):
    def answer(worker, order):
        if isinstance(order, BlockTask):
            return BlockAnswer({}, {}, TOUCHED, ("nobody looked", f"worker {worker}"))
        return obedient(order)

    pool = pool_of(FakeCarrier(answer))
    assert pool.remarks(benchmark) == ()
    for number in (0, 1, 0):
        pool.block(number, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)

    assert pool.remarks(benchmark) == ("nobody looked", "worker 0", "worker 1")
    assert pool.remarks(other) == ()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_worker_is_told_whether_its_parent_computes_on_the_gpu_too(benchmark, monkeypatch, on_gpu):
    told = []

    def answer(worker, order):
        told.extend([order.parent_holds_context] if isinstance(order, BlockTask) else [])
        return obedient(order)

    monkeypatch.setattr(pool_module, "holds_context", lambda kind: on_gpu)
    pool_of(FakeCarrier(answer)).block(0, benchmark, {"baseline": None, "tuned": None}, WORKLOAD, PLAN)
    assert told == [on_gpu]


LOST = WorkerDied("lost", "node 7 went down")


def test_what_was_lost_with_its_machine_is_told_apart_from_a_crash(benchmark):
    pool = pool_of(answering(CheckTask=LOST))
    with pytest.raises(EvaluationFailed) as failed:
        pool.ask(0, benchmark, CHECK)
    assert (failed.value.arm, failed.value.kind, failed.value.reason) == (None, "lost", "node 7 went down")


def test_a_lost_worker_is_asked_again_in_another_and_twice_at_most(benchmark):
    carrier = answering(CheckTask=LOST)
    pool = pool_of(carrier)
    assert asked_again(lambda: pool.ask(0, benchmark, CHECK))
    assert [what for what, _ in carrier.said].count("CheckTask") == 2
    always = pool_of(FakeCarrier(lambda number, order: LOST if isinstance(order, CheckTask) else obedient(order)))
    with pytest.raises(EvaluationFailed, match="node 7 went down"):
        asked_again(lambda: always.ask(0, benchmark, CHECK))
    assert [what for what, _ in always.transport.said].count("CheckTask") == 2


def test_a_worker_that_is_lost_before_it_is_ready_is_replaced_but_not_for_ever(benchmark):
    carrier = answering(Enter=LOST)
    assert pool_of(carrier).ask(0, benchmark, CHECK)
    assert ("Start", 1) in carrier.said
    always = pool_of(FakeCarrier(lambda number, order: LOST if isinstance(order, Enter) else obedient(order)))
    with pytest.raises(NoWorker, match="node 7 went down"):
        always.prepare(range(2), benchmark)
    assert [what for what, _ in always.transport.said].count("Enter") == 3
