"""The driver without a GPU, built, and what runs above it: it is loaded once a process, so in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_compileiq.toolchains.nvidia.launch import CubinModule
from tests.driver.build import build_driver, ptxas

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry each(.param .u64 address, .param .f32 a, .param .f64 b, .param .u8 c, .param .u16 d, .param .s32 e) { ret; }
.visible .entry scale(.param .u64 address) { ret; }
.visible .entry padded(.param .u64 address, .param .u64 scratch, .param .u64 profile) { ret; }
.visible .entry nothing() { ret; }
.visible .entry fault() { ret; }
.visible .entry spin(.param .u64 ns) { ret; }
.visible .entry reuse(.param .u64 ns) { ret; }
.visible .entry _ZN38_GLOBAL__N__b88bd397_7_anon_cu__Z2goPf5innerEPf(.param .u64 address) { ret; }
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What puts a process above the driver and the NVML without a GPU, as environment variables."""
    return build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def above(driver: dict[str, str]) -> Callable[..., str]:
    """Run Python above the driver; returns what it printed, and fails when it does."""

    def run(*arguments: str, **environment: str) -> str:
        shown = {
            key: value for key, value in os.environ.items() if key not in ("CUDA_VISIBLE_DEVICES", "PYTEST_ADDOPTS")
        }
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env={**shown, **driver, **environment},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


# ── above the driver ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("cubin") / "kernels.ptx"
    source.write_text(PTX, encoding="ascii")
    made = source.with_suffix(".cubin")
    subprocess.run([ptxas().program, "-arch=sm_90a", str(source), "-o", str(made)], check=True)
    return made


@pytest.fixture
def kernels(cubin: Path) -> CubinModule:
    return CubinModule(cubin, set())


@pytest.fixture
def calls() -> Callable[[], list[str]]:
    """What the driver was asked since it was last asked for."""
    log = Path(os.environ["STUB_DRIVER_LOG"])
    seen = log.stat().st_size if log.exists() else 0

    def since() -> list[str]:
        nonlocal seen
        text = log.read_bytes() if log.exists() else b""
        new, seen = text[seen:].decode(), len(text)
        return new.splitlines()

    return since
