"""Artifacts for tests, made by the code itself."""

from __future__ import annotations

from pytest_compileiq.artifact import (
    Artifact,
    CodePair,
    CodeTable,
    CompilerTable,
    Controls,
    FingerprintTable,
    Provenance,
    SearchRecord,
)
from pytest_compileiq.claim import Claim, ClaimedDevice, DecisionRecord, FleetTable, Summary
from pytest_compileiq.model import FLEET, sha256_hex
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.store.metadata import controls_file_name

TARGET = "x86-64-v3-gcc12"
CONTROLS = b"-O3\n-funroll-loops\n"
NEW_CODE = {"k": CodePair(baseline=CodeTable(sha256="1" * 64), tuned=CodeTable(sha256="f" * 64))}
NEW_SOURCES = FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={"k.c": "9" * 64, "k.h": "d" * 64})


def make_artifact(**changes) -> Artifact:
    """A small tuned artifact with one exact claim; ``changes`` replace fields."""
    values = {
        "benchmark": "test_k.py::test_k",
        "target": TARGET,
        "outcome": "tuned",
        "controls": Controls(
            kind="options",
            file=controls_file_name(TARGET, CONTROLS),
            sha256=sha256_hex(CONTROLS),
            size_bytes=len(CONTROLS),
            knobs={"-O": 3, "-funroll-loops": ""},
        ),
        "compiler": CompilerTable(name="gcc", version="12.2.0", build="gcc 12.2.0", command=("gcc", "-O2", "k.c")),
        "fingerprint": FingerprintTable(
            benchmark="a" * 64, command="b" * 64, sources={"k.c": "c" * 64, "k.h": "d" * 64}
        ),
        "code": {
            "k": CodePair(
                baseline=CodeTable(sha256="e" * 64, metrics={"code_bytes": 10}), tuned=CodeTable(sha256="f" * 64)
            )
        },
        "search": SearchRecord(
            engine="ga",
            seed=1,
            space="0" * 64,
            evaluations=30,
            invalid=3,
            duplicates=1,
            seconds=1.5,
            failures={"compile": 2, "crash": 1},
            improvements=((2, 1.1), (17, 1.255)),
            transferred=("lz4/x86-64-v3-gcc12",),
        ),
        "claims": (
            Claim(
                device="x86-64-v3", workload="w", objective="code_bytes", kind="exact", baseline_value=10, tuned_value=8
            ),
        ),
        "provenance": Provenance(commit="1" * 40, dirty=False, tool="pytest-compileiq 0.1.0"),
    }
    return Artifact(**(values | changes))


def make_rows(device: str = "cpu") -> list[SampleRow]:
    """Two processes of one quad of two samples a slot."""
    return [
        SampleRow(device, "w", "runtime", process, 0, slot, arm, sample, 1e-4 + 1e-6 * (process + slot + sample))
        for process in range(2)
        for slot, arm in enumerate(("baseline", "tuned", "tuned", "baseline"))
        for sample in range(2)
    ]


def measured_claim(device: str) -> Claim:
    """A gain of 1.1 in the time of ``device``, for the samples of ``make_rows``."""
    numbers = Summary(n=4, mean=1e-4, std=1e-6, p5=1e-4, p50=1e-4, p95=1e-4, p99=1e-4)
    test = DecisionRecord(alpha=0.01, level=0.003, look=1, processes=2, flips=4096, seed=1, finalists=1)
    return Claim(
        device=device, workload="w", objective="runtime", kind="gain", speedup=1.1, speedup_low=1.05, speedup_high=1.2, p_value=0.001,
        cohens_d=2.0, samples="unnamed.csv", test=test, baseline=numbers, tuned=numbers,
    )  # fmt: skip


def over_devices(claim: Claim, *units: str, speedups: tuple[float, ...] = (), outliers: tuple[str, ...] = ()) -> Claim:
    """``claim`` as it would be on several devices; from 5 of them on it is one for their fleet."""
    gains = speedups or (1.1,) * len(units)
    devices = tuple(
        ClaimedDevice(unit=unit, processes=4, speedup=gain, speedup_low=gain - 0.02, speedup_high=gain + 0.02,
                      outlier=unit in outliers)
        for unit, gain in sorted(zip(units, gains, strict=True))
    )  # fmt: skip
    fleet = FleetTable(between_sd=0.01, another_low=1.02, another_high=1.09) if len(units) >= FLEET else None
    return Claim(**{**dict(claim), "devices": devices, "fleet": fleet})


GPUS = tuple(f"GPU-{number}a2b3c4d-0000-1111-2222-333344445555" for number in range(8))
