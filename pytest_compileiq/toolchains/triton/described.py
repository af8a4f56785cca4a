"""What only the process that runs Triton knows of a kernel: asked there once for each content of its files."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.system.forked import ForkedModule
from pytest_compileiq.timing.clock import capability
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.steps import Commands
from pytest_compileiq.toolchains.triton.arguments import REFUSED
from pytest_compileiq.toolchains.triton.host import Job
from pytest_compileiq.toolchains.triton.source import KernelSource

_HOST = ForkedModule("pytest_compileiq.toolchains.triton.host", {"TRITON_INTERPRET": "0"})
_ANSWER_S = 120.0
_LONGEST = 500


@dataclass(frozen=True)
class Description:
    """A kernel as Triton sees it."""

    arguments: Sequence[str]  # their names
    options: Sequence[str]  # the names of the launch options that the installed Triton has for CUDA
    configs: Sequence[Mapping[str, Any]]  # the values of each config of @triton.autotune that can be written down
    is_tuned: bool  # whether it has that decorator


def describe(source: KernelSource, arch: str, place: Place) -> Description:
    """Ask Triton; the answer is kept for as long as the files are what they were.

    Raises:
        MarkerError: the kernel's definition cannot be executed, or is none.
    """
    variables = tuple(source.variables().items())
    return _describe(source, arch, place, variables, tuple(source.sources(place).items()))


_Pairs = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=256)
def _describe(source: KernelSource, arch: str, place: Place, variables: _Pairs, _: _Pairs) -> Description:
    with tempfile.TemporaryDirectory(prefix="compileiq-") as directory:
        home = Path(directory)
        commands = host_commands(place, home, _ANSWER_S, dict(variables), forked=True)
        try:
            commands.run([str(host_job(source, arch, place, home).write())], source.label)
        except BuildError as error:
            raise MarkerError(str(error)) from error
        return Description(**json.loads((home / "described.json").read_text(encoding="utf-8")))


def host_commands(
    place: Place, out_dir: Path, timeout_s: float, environment: Mapping[str, str], *, forked: bool
) -> Commands:
    """Runs the host, in a process of its own for each job."""
    run_program = _HOST.run if forked else _HOST.run_alone
    return Commands("Triton", place.rootdir, out_dir, timeout_s, last_error, environment, run_program=run_program)


def host_job(source: KernelSource, arch: str, place: Place, out_dir: Path) -> Job:
    """The job to describe a kernel."""
    return Job(
        module=source.module,
        path=source.path,
        function=source.function,
        parts=source.parts(),
        capability=capability(arch),
        device=source.device,
        out_dir=out_dir,
        sys_path=[place.test_dir, place.rootdir],
    )


def last_error(output: str) -> str:
    """What Triton says is wrong; ptxas's own words if ptxas refused."""
    if refused := re.search(rf"^{REFUSED}(.*)", output, re.MULTILINE):
        return refused[1]
    if ptxas := re.search(r"ptxas (?:fatal|error)\s*:\s*[^\n]*", output):
        return ptxas[0].split(" Repro command")[0].strip()[:_LONGEST]
    if crash := re.search(r"`ptxas` failed with error code -(\d+)", output):
        return f"ptxas was killed by signal {crash[1]}"
    lines = [line.strip() for line in output.splitlines() if line.startswith("error: ")]
    if not lines:
        return "it printed no error"
    kind, _, reason = lines[-1].removeprefix("error: ").partition(": ")
    return f"{kind}: {reason if len(reason) <= _LONGEST else f'…{reason[-_LONGEST:]}'}"
