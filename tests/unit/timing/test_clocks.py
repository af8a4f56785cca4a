"""Clocks in virtual time: when they are steady, what is told of both arms, and what NVML does not say."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pytest_compileiq.timing.nvml import ClockReading, Settled, read_clocks, settle, why_not_held

UUID = "GPU-aaaa"
CALL_S = 0.005


def sm(mhz: int | None, *reasons: str) -> ClockReading:
    return ClockReading(mhz, 3201, reasons)


class Gpu:
    """Its clock is a function of how many seconds it has been busy; a call keeps it busy for ``call_s``."""

    def __init__(self, mhz, call_s: float = CALL_S):
        self.mhz, self.call_s, self.busy_s, self.calls, self.readings = mhz, call_s, 0.0, 0, 0

    def load(self) -> None:
        self.calls += 1
        self.busy_s += self.call_s

    def read(self) -> ClockReading:
        self.readings += 1
        return sm(self.mhz(self.busy_s))

    def settle(self, **limits: float) -> Settled:
        return settle(self.load, self.read, now=lambda: 1000 + self.busy_s, **limits)


# ── until they are steady ────────────────────────────────────────────────────────────────────────────────────────


def test_a_gpu_that_is_warm_has_settled_after_a_fifth_of_a_second_of_load():
    settled = Gpu(lambda busy_s: 1980).settle()

    assert settled == Settled(pytest.approx(0.2, abs=0.03), True, sm(1980))


def test_a_clock_that_still_rises_is_waited_for_and_the_rise_is_no_part_of_the_steady_time():
    settled = Gpu(lambda busy_s: min(1980, 345 + int(3270 * busy_s))).settle()  # there after half a second

    assert settled == Settled(pytest.approx(0.7, abs=0.05), True, sm(1980))


def test_steps_of_15_mhz_and_one_per_cent_are_steady():
    step = Gpu(lambda busy_s: 435 + 15 * (int(busy_s / 0.03) % 2))
    per_cent = Gpu(lambda busy_s: 1980 + 20 * (int(busy_s / 0.03) % 2))

    assert (step.settle().settled, per_cent.settle().settled) == (True, True)


@pytest.mark.parametrize(
    "mhz",
    [
        lambda busy_s: 1400 + 30 * (int(busy_s / 0.03) % 2),  # more than one per cent, to and fro
        lambda busy_s: 1980 - int(200 * busy_s),  # each reading is near the last; together they drift
    ],
)
def test_a_clock_that_moves_all_the_time_does_not_settle_and_the_wait_is_bounded(mhz):
    gpu = Gpu(mhz)

    settled = gpu.settle(most_s=2.0)

    assert (settled.settled, settled.reading) == (False, sm(mhz(gpu.busy_s)))
    assert 2.0 <= settled.seconds < 2.1


def test_the_gpu_is_busy_between_readings_however_short_a_call_is():
    gpu = Gpu(lambda busy_s: 1980, call_s=1e-5)

    gpu.settle()

    assert gpu.calls > 1000 * gpu.readings


def test_of_calls_that_take_long_three_readings_are_enough_and_two_are_not():
    gpu = Gpu(lambda busy_s: 1980, call_s=1.0)
    assert gpu.settle() == Settled(2.0, True, sm(1980))
    assert gpu.calls == 2

    slow = Gpu(lambda busy_s: 1980, call_s=4.0)
    assert slow.settle() == Settled(4.0, False, sm(1980))


@pytest.mark.parametrize("reading", [None, sm(None)])
def test_a_device_that_does_not_tell_its_clock_is_not_loaded(reading):
    calls = []

    assert settle(lambda: calls.append(1), lambda: reading, now=lambda: 7.0) == Settled(0.0, None, reading)
    assert calls == []


def test_a_clock_that_is_no_longer_told_ends_the_wait():
    readings = iter([sm(345), sm(1200), None])
    gpu = Gpu(lambda busy_s: 1980)

    settled = settle(gpu.load, lambda: next(readings), now=lambda: gpu.busy_s)

    assert settled == Settled(pytest.approx(gpu.busy_s), None, None)


def test_what_the_kernel_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        settle(lambda: 1 / 0, lambda: sm(1980))


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (sm(1500), None),
        (sm(1485), None),  # the nearest clock that the GPU has
        (None, None),
        (sm(None), None),
        (sm(1395), "the clocks are locked at 1500 MHz, and under load the GPU runs at 1395 MHz"),
        (
            sm(1395, "software power cap"),
            "the clocks are locked at 1500 MHz, and under load the GPU runs at 1395 MHz (software power cap)",
        ),
    ],
)
def test_a_lock_that_the_gpu_does_not_keep_is_told(reading, sentence):
    assert why_not_held(1500, Settled(0.2, True, reading)) == sentence


# ── what NVML says ───────────────────────────────────────────────────────────────────────────────────────────────


class NVMLError(Exception):
    pass


def fake_nvml(**answers) -> SimpleNamespace:
    """One GPU with these answers to queries by the end of their names; an answer may be an error to raise."""

    def answering(answer):
        def query(*arguments):
            if isinstance(answer, Exception):
                raise answer
            return answer[arguments[-1]] if isinstance(answer, dict) else answer

        return query

    known = {"Count": 1, "HandleByIndex": "handle", "UUID": UUID, "IsMigDeviceHandle": False, **answers}
    queries = {f"nvmlDeviceGet{name}": answering(answer) for name, answer in known.items()}
    return SimpleNamespace(
        NVMLError=NVMLError, NVML_CLOCK_SM="SM", NVML_CLOCK_MEM="MEM", nvmlInit=lambda: None, **queries
    )


def test_a_reading_is_three_answers_about_one_gpu(monkeypatch):
    clocks = {"SM": 1710, "MEM": 3201}
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(ClockInfo=clocks, CurrentClocksEventReasons=0x4))

    assert read_clocks(UUID) == ClockReading(1710, 3201, ("software power cap",))


def test_what_the_driver_does_not_tell_is_an_absence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(ClockInfo=NVMLError("Not Supported")))

    assert read_clocks(UUID) == ClockReading(None, None, ())
    assert read_clocks("GPU-gone") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_clocks(UUID) is None
