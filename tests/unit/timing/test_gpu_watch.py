"""What a watch asks, refuses and remarks, on an NVML and a CUDA that are made up."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.samples import ClockReading
from pytest_compileiq.system.files import locked, machine_lock
from pytest_compileiq.timing import gpu_watch
from pytest_compileiq.timing.gpu_watch import SHARED, GpuWatch
from pytest_compileiq.timing.nvml import GpuState, Settled
from pytest_compileiq.timing.registry import watch_of
from pytest_compileiq.timing.sampler import Disturbance, Watch

UUID = "GPU-aaaa"
HIDDEN = 2**31 - 1


class Machine:
    """What NVML lists each time that it is asked; the last answer stays."""

    def __init__(self) -> None:
        self.listed: list[tuple[int, ...] | None] = [(os.getpid(),)]
        self.reasons: tuple[str, ...] = ()
        self.is_there = True
        self.asked: list[str] = []

    def snapshot(self, uuid: str) -> GpuState | None:
        self.asked.append(uuid)
        pids = self.listed.pop(0) if len(self.listed) > 1 else self.listed[0]
        return GpuState(None, None, self.reasons, None, None, None, pids) if self.is_there else None


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Machine:
    made = Machine()
    monkeypatch.setattr(gpu_watch, "snapshot", made.snapshot)
    monkeypatch.setattr(gpu_watch, "current_uuid", lambda: UUID)
    monkeypatch.setattr(gpu_watch, "holds_context", lambda: True)
    monkeypatch.setattr(gpu_watch, "is_in_container", lambda: False)
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path))
    return made


def watch() -> GpuWatch:
    return GpuWatch(lambda: None, parent_holds_context=False)


def block(quads: int = 2) -> tuple[str, ...]:
    """Watch a block; returns the remarks."""
    with watch() as watched:
        watched.before()
        for _ in range(quads):
            watched.after_quad()
        watched.after_quad()
    return watched.remarks


def test_a_block_is_asked_about_before_it_after_every_quad_and_after_it(machine):
    assert block(quads=2) == ()
    assert machine.asked == [UUID] * 4


@pytest.mark.parametrize("quiet", range(4))
def test_a_neighbour_refuses_the_block_whenever_it_is_there_and_even_if_it_goes(machine, quiet):
    me = (os.getpid(),)
    machine.listed = [me] * quiet + [(*me, HIDDEN), me]

    with pytest.raises(Disturbance, match=rf"^other processes compute on the GPU: 1 process of .* {HIDDEN}\)$"):
        block(quads=2)
    assert len(machine.asked) == quiet + 1


def test_heat_drops_a_quad_and_refuses_no_block(machine):
    with watch() as watched:
        watched.before()
        machine.reasons = ("software power cap", "hardware thermal slowdown")
        assert watched.after_quad() == "hardware thermal slowdown"
        watched.after_quad()


def test_a_gpu_that_nvml_does_not_show_is_not_measured(machine):
    machine.is_there = False
    with pytest.raises(Disturbance, match=rf"NVML does not show {UUID}.*pip install 'pytest-compileiq\[cuda\]'"):
        block()


def test_a_gpu_that_is_never_sampled_is_neither_asked_about_nor_locked(machine):
    with watch() as watched:
        watched.after_quad()
    assert machine.asked == []


# ── the lock ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_gpu_in_use_is_locked_until_the_block_ends_however_it_ends(machine):
    path = machine_lock(f"device {UUID}")
    with pytest.raises(ZeroDivisionError), watch() as watched:
        watched.before()
        watched.before()
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
        raise ZeroDivisionError
    with locked(path, wait=False):
        pass


def test_waiting_for_another_run_is_progress_and_is_told_where_it_is_long(machine, monkeypatch):
    monkeypatch.setattr(gpu_watch, "TOLD_S", (0.0,))
    other = locked(machine_lock(f"device {UUID}"))
    other.__enter__()
    waited = []

    def waiting() -> None:
        waited.append(machine.asked[:])
        if len(waited) == 3:
            other.__exit__(None, None, None)

    with GpuWatch(waiting, parent_holds_context=False) as watched:
        watched.before()
    assert waited == [[], [], []]
    (told,) = [said for said in watched.remarks if "waited" in said]
    assert told.startswith("waited 0 s for the GPU, one measurement at a time: process ")
    assert machine.asked == [UUID]


def test_a_gpu_that_cannot_be_locked_is_not_measured(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path / "gone"))
    with pytest.raises(Disturbance, match=r"^ACF_LOCK_DIR=.*gone is no directory"):
        block()
    assert machine.asked == []


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locks(monkeypatch):
    """Where the clocks are held, from the first to the last."""
    held = []

    @contextmanager
    def lock(uuid, mhz):
        held.append((uuid, mhz))
        yield
        held.append((uuid, None))

    monkeypatch.setattr(gpu_watch, "locked_clocks", lock)
    monkeypatch.setattr(gpu_watch, "base_clock_mhz", lambda uuid: 1755)
    return held


@pytest.mark.parametrize(("wanted", "mhz"), [(1500, 1500), ("base", 1755)])
def test_the_clocks_are_held_while_the_gpu_is_and_freed_with_it(machine, locks, wanted, mhz):
    with GpuWatch(lambda: None, parent_holds_context=False, lock_clocks=wanted) as watched:
        watched.before()
        watched.before()
        assert (watched.locked_mhz, locks) == (mhz, [(UUID, mhz)])
    assert locks == [(UUID, mhz), (UUID, None)]


def test_clocks_that_nobody_wants_locked_are_free(machine, locks):
    block()
    assert locks == []


def test_clocks_that_may_not_be_locked_refuse_the_block(machine, monkeypatch):
    def refused(uuid, mhz):
        raise EnvironmentFault("only root may lock its clocks")

    monkeypatch.setattr(gpu_watch, "locked_clocks", refused)
    watched = GpuWatch(lambda: None, parent_holds_context=False, lock_clocks=1500)
    with watched, pytest.raises(Disturbance, match="only root may lock"):
        watched.before()


@pytest.mark.parametrize(
    ("settled", "locked_mhz", "said"),
    [
        (Settled(0.2, True, ClockReading(1980, None)), None, ()),
        (
            Settled(3.04, False, ClockReading(1700, None)),
            None,
            ("the GPU's clocks were not steady after 3.0 s of load",),
        ),
        (Settled(0.0, None, None), 1500, ()),
        (
            Settled(0.2, True, ClockReading(1200, None)),
            1500,
            ("the clocks are locked at 1500 MHz, and under load the GPU runs at 1200 MHz",),
        ),
    ],
)
def test_it_is_warmed_up_by_the_load_itself_and_what_came_of_it_is_remarked(
    machine, locks, monkeypatch, settled, locked_mhz, said
):
    loads = []

    def settle(load, read):
        load()
        assert read() == ClockReading(1980, 3201)
        return settled

    monkeypatch.setattr(gpu_watch, "read_clocks", lambda uuid: ClockReading(1980, 3201) if uuid == UUID else None)
    monkeypatch.setattr(gpu_watch, "settle", settle)
    with GpuWatch(lambda: None, parent_holds_context=False, lock_clocks=locked_mhz) as watched:
        assert (watched.settle(lambda: loads.append(1)), watched.after_slot()) == (None, None)
        watched.before()
        assert watched.settle(lambda: loads.append(1)) is settled
        assert watched.after_slot() == ClockReading(1980, 3201)
    assert (loads, watched.remarks) == ([1], said)


# ── remarks ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("listed", [(), None])
def test_neighbours_that_nobody_would_see_are_remarked_upon_once(machine, listed):
    machine.listed = [listed]
    (remark,) = block()
    assert remark.startswith("NVML does not show which processes compute on this GPU")
    assert "--pid=host" in remark


@pytest.mark.parametrize(
    ("in_container", "listed", "is_given", "remarks"),
    [
        (False, None, False, ()),
        (True, None, False, (SHARED,)),
        (True, None, True, ()),
        (False, HIDDEN, False, (SHARED,)),
        (False, HIDDEN, True, ()),
    ],
)
def test_a_lock_that_other_containers_do_not_see_is_remarked_upon(
    machine, monkeypatch, in_container, listed, is_given, remarks
):
    monkeypatch.setattr(gpu_watch, "is_in_container", lambda: in_container)
    monkeypatch.setattr("pytest_compileiq.timing.gpu_watch._has_driver", lambda pid: pid == os.getpid())
    machine.listed = [(listed or os.getpid(),)]
    monkeypatch.setattr(gpu_watch, "is_lock_dir_given", lambda: is_given)

    assert block() == remarks


def test_a_processor_is_watched_by_nobody():
    with watch_of("cpu", lambda: None, parent_holds_context=False) as watched:
        watched.before()
        assert (watched.settle(lambda: None), watched.after_slot(), watched.after_quad()) == (None, None, None)
        watched.after_quad()
    assert (type(watched), watched.remarks) == (Watch, ())


def test_a_gpu_is_watched():
    assert isinstance(watch_of("cuda", lambda: None, parent_holds_context=False), GpuWatch)
