"""Clocks are locked, held and given back through the real pynvml and by a real process, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.system.watchdog import RUN_TOKEN_VARIABLE, of_each_process
from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.launching import choose_launching
from pytest_compileiq.timing.nvml import (
    ClockReading,
    Settled,
    base_clock_mhz,
    locked_clocks,
    read_clocks,
    settle,
    why_not_held,
)
from tests.waiting import PATIENCE_S, wait_until

GPU = "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
STUB = Path(os.environ["STUB_DRIVER_LOG"]).parent  # where the libraries are, and what their GPUs are told
HOLD = f"""
import time
from pytest_compileiq.timing.nvml import locked_clocks
with locked_clocks({GPU!r}, 1500):
    print("locked", flush=True)
    time.sleep(600)
"""

FORK = f"""
import os, signal
from pytest_compileiq.timing.nvml import locked_clocks
with locked_clocks({GPU!r}, 1500):
    child = os.fork()
    if not child:
        signal.pause()
os.kill(child, signal.SIGKILL)
"""


def locked_at(device: str = GPU) -> str | None:
    """The clock that the GPU is locked at, as any process sees it."""
    state = STUB / f"locked-{device}"
    return state.read_text() if state.exists() else None


def keeper_of(parent: int) -> int:
    """The process that keeps the lock of ``parent``."""
    (keeper,) = (
        pid
        for pid, argv in of_each_process("cmdline")
        if b"pytest_compileiq.timing.clock_keeper" in argv and argv.split(b"\0")[-2] == str(parent).encode()
    )
    return keeper


@pytest.fixture
def refusal():
    """Make the driver answer with an error whoever locks or resets."""
    file = STUB / "refusal"
    yield lambda number: file.write_text(str(number))
    file.unlink(missing_ok=True)
    (STUB / f"locked-{GPU}").unlink(missing_ok=True)


@pytest.fixture
def holder():
    """Another process that holds the clocks of the GPU."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


# ── a lock ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_clocks_are_held_within_the_context_and_free_after_it():
    with locked_clocks(GPU, 1500):
        assert locked_at() == "1500"
        assert read_clocks(GPU) == ClockReading(1500, 3201)
        assert locked_at("GPU-bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb") is None

    assert locked_at() is None
    assert read_clocks(GPU) == ClockReading(1980, 3201)


def test_they_are_free_again_when_what_was_done_meanwhile_fails():
    with pytest.raises(ZeroDivisionError), locked_clocks(GPU, base_clock_mhz(GPU)):
        assert locked_at() == "1755"
        _ = 1 / 0

    assert locked_at() is None


def test_they_are_free_again_when_the_process_is_killed_outright(holder):
    assert locked_at() == "1500"

    holder.kill()

    assert wait_until(lambda: locked_at() is None)


def test_a_fork_that_lives_on_does_not_hold_them():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=PATIENCE_S)

    assert locked_at() is None


def test_the_keeper_carries_no_mark_that_a_sweep_looks_for_and_is_in_a_session_of_its_own(monkeypatch):
    monkeypatch.setenv(RUN_TOKEN_VARIABLE, "of-this-run")
    with locked_clocks(GPU, 1500):
        keeper = keeper_of(os.getpid())
        environment = dict(of_each_process("environ"))[keeper]
        assert RUN_TOKEN_VARIABLE.encode() not in environment
        assert os.getsid(keeper) == keeper


@pytest.mark.parametrize("polite", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_keeper_that_is_told_to_end_keeps_the_lock_as_long_as_it_is_used(polite):
    with locked_clocks(GPU, 1500):
        os.kill(keeper_of(os.getpid()), polite)
        assert locked_at() == "1500"

    assert locked_at() is None


def test_a_keeper_that_is_killed_leaves_the_reset_to_who_had_the_lock():
    with locked_clocks(GPU, 1500):
        os.kill(keeper_of(os.getpid()), signal.SIGKILL)

    assert locked_at() is None


# ── a refusal ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            4,
            "only root may lock its clocks; run as root, .* an administrator lock them: nvidia-smi -i GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa -lgc 90",
        ),
        (2, "it has no clock near 90 MHz; nvidia-smi -q -d SUPPORTED_CLOCKS"),
        (3, r"its clocks cannot be locked \(Not Supported\); set it to off"),
    ],
)
def test_what_the_driver_does_not_allow_is_a_sentence_and_changes_nothing(refusal, error, sentence):
    refusal(error)

    with (
        pytest.raises(
            EnvironmentFault, match=f"^acf_lock_clocks: GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa: {sentence}"
        ),
        locked_clocks(GPU, 90),
    ):
        pytest.fail("it was entered")

    assert locked_at() is None


def test_what_is_not_one_persons_to_lock_is_refused_by_what_nvml_tells(monkeypatch):
    with pytest.raises(EnvironmentFault, match="MIG-aaaa is a part of a GPU"), locked_clocks("MIG-aaaa", 1500):
        pytest.fail("it was entered")

    monkeypatch.setenv("STUB_NVML_APPLICATION_MHZ", "1200")
    with (
        pytest.raises(
            EnvironmentFault, match="application clocks of GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa to 1200 MHz"
        ),
        locked_clocks(GPU, 1500),
    ):
        pytest.fail("it was entered")


def test_clocks_that_cannot_be_freed_are_told_with_the_command_that_does(refusal):
    freed_by = r"still locked at 1500 MHz .*: nvidia-smi -i GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa -rgc frees them"
    with pytest.raises(EnvironmentFault, match=freed_by), locked_clocks(GPU, 1500):
        refusal(4)


def test_a_keeper_that_cannot_start_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho No module named pynvml >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))

    with (
        pytest.raises(EnvironmentFault, match=r"ended at once \(.*No module named pynvml.*\); set it to off"),
        locked_clocks(GPU, 1500),
    ):
        pytest.fail("it was entered")


# ── a steady clock ───────────────────────────────────────────────────────────────────────────────────────────────


def test_clocks_settle_under_the_load_of_a_kernel(kernels, monkeypatch):
    def call() -> None:
        kernels.nothing(1, 32)

    clock = CudaClock(choose_launching({"tuned": call}, None), l2="warm")
    mhz, busy_s = iter([345, 1200, 1905, *(1980 for _ in range(100))]), iter(range(1000))

    def load() -> None:
        clock.once(call)
        monkeypatch.setenv("STUB_NVML_SM_MHZ", str(next(mhz)))

    settled = settle(load, lambda: read_clocks(GPU), now=lambda: next(busy_s) / 50, most_s=10)

    assert settled == Settled(settled.seconds, True, ClockReading(1980, 3201))
    assert why_not_held(1500, settled) == "the clocks are locked at 1500 MHz, and under load the GPU runs at 1980 MHz"
