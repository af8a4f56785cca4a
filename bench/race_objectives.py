"""Deterministic objectives of real compilers, for racing search engines; a build is made once and kept on disk."""

import json
import math
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.model import Candidate, ControlsFile, sha256_hex
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc import Cc
from pytest_compileiq.toolchains.cc_resolved import CcResolved
from pytest_compileiq.toolchains.cc_resolved import resolve as resolve_cc
from pytest_compileiq.toolchains.cuda_tools import find_tool
from pytest_compileiq.toolchains.elf import machine_code
from pytest_compileiq.toolchains.ptxas import Ptxas

KERNELS = Path(__file__).parents[1] / "tests" / "kernels"
TIMEOUT_S = 20.0

Metrics = dict[str, Any]  # "code" is the digest of the machine code, the others are numbers


class Cache:
    """Builds and finished races in one SQLite file, which any number of runs may share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT)")

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        row = self._base.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
        if row is None:
            row = (json.dumps(make()),)
            self._base.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, *row))
        return json.loads(row[0])

    def known(self, key: str) -> bool:
        return self._base.execute("SELECT 1 FROM kept WHERE key = ?", (key,)).fetchone() is not None


@dataclass(frozen=True)
class Objective:
    """A number to make small.

    Attributes:
        name: what it is, for the table.
        identity: a digest of the compiler, its command and its sources.
        build: controls → metrics, or None when the compiler refuses them.
        value: metrics → the number.
    """

    name: str
    identity: str
    space: Space
    render: Callable[[Candidate], ControlsFile]
    build: Callable[[ControlsFile], Metrics | None]
    value: Callable[[Metrics], float]
    cache: Cache

    def measured(self, knobs: Mapping[str, Any]) -> tuple[float, str] | None:
        """The number and the digest of the machine code; None when the compiler refuses the knobs."""
        controls = self.render(Candidate(knobs))
        metrics = self.cache.get(f"build {self.identity} {controls.key}", lambda: self.build(controls))
        return None if metrics is None else (self.value(metrics), metrics["code"])

    @property
    def baseline(self) -> float:
        measured = self.measured({})
        assert measured is not None
        return measured[0]


def objectives(cache: Cache, scratch: Path) -> Iterator[Objective]:
    """Code size of two C kernels; registers with spills, and code size, of two CUDA kernels where ptxas is found."""
    # From -Os on there is no single option left that decides; from -O2 on -Os does.
    for name, flags in (("wire", "-Os"), ("pair_potential", "-O2")):
        yield _code_size_of_c(name, flags, cache, scratch)
    try:
        nvcc = find_tool("nvcc", None, Place(scratch, scratch)).program
    except EnvironmentFault as missing:
        print(f"no ptxas objectives: {missing}")
        return
    for name, what, value in (
        ("attention", "registers + spilled words", _registers_and_spills),
        ("matmul", "code bytes", _code_bytes),
    ):
        source = KERNELS / "cuda" / f"{name}.cu"
        command = [nvcc, "-arch=sm_90a", "-O3", "-ptx", str(source), "-o", f"{name}.ptx"]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True)
        yield _assembled(name, what, value, cache, scratch)


def _code_bytes(metrics: Metrics) -> float:
    return float(metrics["code_bytes"])


def _registers_and_spills(metrics: Metrics) -> float:
    return float(metrics["registers"]) + metrics["spill_bytes"] / 4


def _code_size_of_c(name: str, flags: str, cache: Cache, scratch: Path) -> Objective:
    cc = resolve_cc(Cc(f"{name}.c", flags=flags), Place(KERNELS, KERNELS))

    def build(controls: ControlsFile) -> Metrics | None:
        return _compiled(cc, name, controls, scratch)

    identity = sha256_hex(f"{cc.compiler.build} {cc.sources()} {cc.compiler.command}".encode())
    title = f"{name}.c {flags}, {cc.compiler.name} {cc.compiler.version}: code bytes"
    return Objective(title, identity, cc.option_space(), cc.render, build, _code_bytes, cache)


def _compiled(compiler: CcResolved, name: str, controls: ControlsFile, scratch: Path) -> Metrics | None:
    """Only compiled: a library need not be linked to be weighed."""
    (scratch / "controls.rsp").write_bytes(controls.data)
    made = scratch / f"{name}.o"
    argv = [compiler.program.program, *compiler.flags.compile, f"@{scratch / 'controls.rsp'}", "-c", f"{name}.c"]
    try:
        done = subprocess.run([*argv, "-o", made], cwd=KERNELS, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    held = machine_code([made]).program
    return {"code": held.sha256, **held.metrics}


def _assembled(name: str, what: str, value: Callable[[Metrics], float], cache: Cache, scratch: Path) -> Objective:
    ptxas = Ptxas(f"{name}.ptx", arch="sm_90a").resolve(Place(scratch, scratch))
    space = ptxas.option_space()
    assert space is not None

    def build(controls: ControlsFile) -> Metrics | None:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            try:
                built = ptxas.build(controls, Path(folder), timeout_s=TIMEOUT_S)
            except BuildError:
                return None
        return {"code": built.digest, **built.metrics}

    identity = sha256_hex(f"{ptxas.compiler.build} {ptxas.sources()} {ptxas.compiler.command}".encode())
    return Objective(
        f"{name}.cu, ptxas {ptxas.compiler.version}: {what}",
        identity,
        space,
        ptxas.render,
        build,
        value,
        cache,
    )


def log_ratio(value: float, baseline: float) -> float:
    """What an engine is told: lower is better, 0 is the baseline's."""
    return math.log(max(value, 0.5) / max(baseline, 0.5))
