"""Builds the driver without a GPU; ``python -m tests.driver.build DIRECTORY`` prints what puts a process above it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pytest_compileiq.toolchains.nvidia.tools import CudaTool, installed

HERE = Path(__file__).parent
# What launching takes, and how fine events are, about as on a real machine; otherwise nothing, and exact.
AS_ON_A_MACHINE = {"STUB_EVENT_NS": "500", "STUB_LAUNCH_NS": "9000", "STUB_GRAPH_NS": "6000"}


def ptxas() -> CudaTool:
    return next(installed("ptxas"))


def build_driver(place: Path) -> dict[str, str]:
    """Build libcuda and libnvidia-ml in ``place``; returns the environment of a process above them."""
    include = Path(ptxas().program).resolve().parents[1] / "include"  # cuda.h lies beside the compilers
    for library in ("libcuda", "libnvidia-ml"):
        source, made = HERE / f"{library}.c", place / f"{library}.so.1"
        flags = ("-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{include}")
        subprocess.run(["gcc", *flags, str(source), "-o", str(made)], check=True)
    libraries = os.pathsep.join([str(place), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    return {
        "LD_LIBRARY_PATH": libraries,
        "STUB_DRIVER_LOG": str(place / "calls"),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the GPUs are of two models
    }


if __name__ == "__main__":
    print(json.dumps(build_driver(Path(sys.argv[1])) | AS_ON_A_MACHINE))
