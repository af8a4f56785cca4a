"""NVML against a fake pynvml: which device is meant, what is not supported.

``tests/driver`` asks the real one.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pytest_compileiq.timing.nvml import GpuState, driver_version, hardware_slowdown, power_limit_w, snapshot

MIG = "MIG-11112222-3333"
QUERIES = {
    "nvmlDeviceGetClockInfo": lambda gpu, kind: {"SM": 1980, "MEM": 3201}[kind],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x4 | 0x40,
    "nvmlDeviceGetPowerUsage": lambda gpu: 412500,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: 61,
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: 9000,
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [],
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: 700000,
    "nvmlSystemGetDriverVersion": lambda: "580.65.06",
}


class NVMLError(Exception):
    pass


class FakeNvml:
    """GPUs are their UUIDs, and there is one MIG device."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = "SM", "MEM", 0

    def __init__(self, *gpus: str, names: tuple[str, ...] = ()):
        self.gpus, self.names = gpus, names or ("NVIDIA H200",) * len(gpus)
        self.unsupported: set[str] = set()
        self.missing: set[str] = set()
        self.asked: list[tuple] = []

    def __getattr__(self, query):
        if query not in QUERIES or query in self.missing:
            raise AttributeError(query)

        def answer(*arguments):
            self.asked.append((query, *arguments))
            if query in self.unsupported:
                raise NVMLError("Not Supported")
            return QUERIES[query](*arguments)

        return answer

    def nvmlInit(self):
        if not self.gpus:
            raise NVMLError("NVML Shared Library Not Found")

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, number):
        if number >= len(self.gpus):
            raise NVMLError("Invalid Argument")
        return self.gpus[number]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != MIG:
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, gpu):
        return gpu

    def nvmlDeviceGetName(self, gpu):
        return self.names[self.gpus.index(gpu)]

    def nvmlDeviceIsMigDeviceHandle(self, gpu):
        return False


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch):
    """A machine with these GPUs, all visible."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def with_gpus(*gpus: str, names: tuple[str, ...] = ()) -> FakeNvml:
        nvml = FakeNvml(*gpus, names=names)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    return with_gpus


def meant(nvml: FakeNvml) -> set[str]:
    """The devices that were asked about."""
    return {gpu for _, gpu, *_ in nvml.asked}


def seen(**fields) -> GpuState:
    empty = dict.fromkeys(GpuState.__dataclass_fields__)
    return GpuState(**{**empty, **fields})


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("nvmlDeviceGetClockInfo", ("sm_clock_mhz", "memory_clock_mhz")),
        ("nvmlDeviceGetCurrentClocksEventReasons", ("throttle_reasons",)),
        ("nvmlDeviceGetPowerUsage", ("power_w",)),
        ("nvmlDeviceGetTemperature", ("temperature_c",)),
        ("nvmlDeviceGetTotalEnergyConsumption", ("energy_mj",)),
        ("nvmlDeviceGetComputeRunningProcesses", ("compute_pids",)),
    ],
)
@pytest.mark.parametrize("how", ["unsupported", "missing"])
def test_what_a_device_or_an_older_pynvml_does_not_tell_is_none_and_the_rest_is_still_known(
    install, how, query, fields
):
    nvml = install("GPU-aaaa")
    setattr(nvml, how, {query})

    found = vars(snapshot())

    assert {name for name, value in found.items() if value is None} == set(fields)


@pytest.mark.parametrize("how", ["unsupported", "missing"])
def test_the_reasons_of_the_clocks_are_asked_for_by_their_older_name_too(install, monkeypatch, how):
    nvml = install("GPU-aaaa")
    setattr(nvml, how, {"nvmlDeviceGetCurrentClocksEventReasons"})
    monkeypatch.setitem(QUERIES, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda gpu: 0x8)
    assert snapshot().throttle_reasons == ("hardware slowdown",)
    assert hardware_slowdown(snapshot()) == "hardware slowdown"


@pytest.mark.parametrize("how", ["unsupported", "missing"])
def test_a_power_limit_or_driver_that_nvml_does_not_tell_is_none(install, how):
    nvml = install("GPU-aaaa")
    setattr(nvml, how, {"nvmlDeviceGetPowerManagementLimit", "nvmlSystemGetDriverVersion"})

    assert power_limit_w() is None
    assert driver_version() is None
    assert power_limit_w(5) is None


@pytest.mark.parametrize(
    ("mask", "device"),
    [
        (None, "GPU-aaaa"),
        ("1", "GPU-abbb"),
        ("1,0", "GPU-abbb"),
        (" 0 , 1", "GPU-aaaa"),
        ("GPU-abbb", "GPU-abbb"),
        ("GPU-ab", "GPU-abbb"),
        (f"{MIG},0", MIG),
        ("0,9", "GPU-aaaa"),
    ],
)
def test_the_first_visible_device_is_the_one_that_cuda_shows_first(install, monkeypatch, mask, device):
    nvml = install("GPU-aaaa", "GPU-abbb")
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)

    snapshot()
    assert meant(nvml) == {device}


@pytest.mark.parametrize("mask", ["", "-1", "9", "-1,0", "GPU-a", "GPU-cccc", "abbb", "MIG-gone", "NoDevFiles"])
def test_a_mask_that_shows_nothing_shows_nothing(install, monkeypatch, mask):
    install("GPU-aaaa", "GPU-abbb")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)

    assert snapshot() is None


def test_an_ordinal_counts_among_the_visible_and_stops_at_the_first_invalid_name(install, monkeypatch):
    nvml = install("GPU-aaaa", "GPU-abbb", "GPU-cccc")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1,-1,0")

    snapshot(1)
    assert meant(nvml) == {"GPU-abbb"}
    assert snapshot(2) is None
    assert snapshot(3) is None


def test_a_uuid_means_itself_whatever_is_visible(install, monkeypatch):
    nvml = install("GPU-aaaa", "GPU-abbb")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    snapshot("GPU-abbb")

    assert meant(nvml) == {"GPU-abbb"}


def test_a_number_among_several_models_needs_the_order_of_the_bus(install, monkeypatch):
    nvml = install("GPU-aaaa", "GPU-abbb", names=("NVIDIA T400", "NVIDIA H200"))

    assert snapshot() is None
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    snapshot()
    assert meant(nvml) == {"GPU-aaaa"}


def test_processes_are_listed_by_the_numbers_that_nvml_gives_them(install, monkeypatch):
    install("GPU-aaaa")
    listed = [SimpleNamespace(pid=pid) for pid in (7, 5)]
    monkeypatch.setitem(QUERIES, "nvmlDeviceGetComputeRunningProcesses", lambda gpu: listed)

    assert snapshot().compute_pids == (7, 5)


@pytest.mark.parametrize(
    ("reasons", "answer"),
    [
        (None, None),
        ((), None),
        (("idle", "software power cap", "application clocks"), None),
        (("software thermal slowdown",), "software thermal slowdown"),
        (
            ("software power cap", "hardware slowdown", "hardware power brake"),
            "hardware slowdown, hardware power brake",
        ),
    ],
)
def test_heat_and_the_power_brake_drop_a_quad_and_a_power_cap_does_not(reasons, answer):
    assert hardware_slowdown(seen(throttle_reasons=reasons)) == answer


def test_without_nvml_there_is_no_snapshot(install, monkeypatch):
    install()
    for broken in (sys.modules["pynvml"], None):
        monkeypatch.setitem(sys.modules, "pynvml", broken)
        assert (snapshot(), driver_version(), power_limit_w()) == (None, None, None)
