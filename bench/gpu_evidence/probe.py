"""What this machine is, as JSON: the GPU or why there is none, the compilers, the versions, and what is lacking.

Runs in the environment that measures: python -m bench.gpu_evidence.probe
"""

import importlib.util
import json
import os
import platform
import subprocess
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from bench.machine import describe
from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.cuda import cuda_device
from pytest_compileiq.timing.nvml import snapshot
from pytest_compileiq.toolchains.nvidia.tools import CudaTool, installed

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "pytest-compileiq", "pytest", "numpy", "scipy", "pydantic", "cuda-core", "cuda-bindings", "nvidia-ml-py", "triton",
    "compileiq", "torch",
)  # fmt: skip


def seen() -> dict[str, Any]:
    gpu, no_gpu = _gpu()
    tools = {name: _tool(name) for name in ("nvcc", "ptxas")}
    return {
        "gpu": gpu,
        "no_gpu": no_gpu,
        "machine": describe(),
        "python": platform.python_version(),
        "commit": _commit(),
        "tools": {name: f"{tool.version} ({tool.origin})" for name, tool in tools.items() if tool},
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "lacks": _lacks(tools),
    }


def _gpu() -> tuple[dict[str, Any] | None, str]:
    try:
        device = cuda_device()
    except EnvironmentFault as fault:
        return None, str(fault)
    state = snapshot()
    return msgspec.structs.asdict(device) | (asdict(state) if state else {}), ""


def _tool(name: str) -> CudaTool | None:
    try:
        return next(installed(name), None)
    except EnvironmentFault:
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _lacks(tools: dict[str, CudaTool | None]) -> dict[str, str]:
    """What a kernel may need → why it is not here; what is here is left out."""
    ptxas = tools["ptxas"]
    missing = {name: f"no {name} here" for name, tool in tools.items() if tool is None}
    if ptxas is None or not ptxas.takes_controls:
        missing["controls"] = f"no ptxas that takes an ACF here, only {ptxas}" if ptxas else "no ptxas here"
    if importlib.util.find_spec("triton") is None:
        missing["triton"] = "Triton is not installed here"
    if importlib.util.find_spec("compileiq") is None:
        missing["compileiq"] = "CompileIQ is not installed here"
    elif not os.environ.get("CIQ_SEARCH_SPACES_DIR"):
        missing["compileiq"] = "CIQ_SEARCH_SPACES_DIR does not name the files of CompileIQ's search spaces"
    return missing


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    print(json.dumps(seen(), indent=1))
