"""What the engines race on: builds of real compilers, and recorded timings; each is made once and kept on disk."""

import json
import math
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.model import Candidate, ControlsFile, sha256_hex
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import CcBuilder
from pytest_compileiq.toolchains.cc.builder import resolve as resolve_cc
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.machine_code.elf import machine_code
from pytest_compileiq.toolchains.nvidia.ptxas import Ptxas
from pytest_compileiq.toolchains.nvidia.tools import find_tool

BENCH = Path(__file__).parent
KERNELS = BENCH.parent / "tests" / "kernels"
TIMEOUT_S = 20.0
# What decides nothing but the level of the cache that a load or store goes to changes no register and no instruction.
CACHE_KNOBS = re.compile(r"--(def|force)-(load|store)-cache=|--optimize-float-atomics")
LAUNCH_BOUNDS = re.compile(r"^\.(maxntid|minnctapersm|reqntid)\b.*\n", re.MULTILINE)

Metrics = dict[str, Any]  # "code" is the digest of the machine code, the others are numbers


class Cache:
    """Builds and finished races in one SQLite file, which any number of runs may share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
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
        identity: a digest of all that it depends on.
        measured: knobs → metrics, or None when the compiler refuses them.
        value: metrics → the number that an engine is judged by.
        noisy: metrics and a random source → the score that an engine is told; None where the score is the number's own.
    """

    name: str
    identity: str
    space: Space
    measured: Callable[[Mapping[str, Any]], Metrics | None]
    value: Callable[[Metrics], float]
    noisy: Callable[[Metrics, np.random.Generator], float] | None = None

    @property
    def baseline(self) -> float:
        measured = self.measured({})
        assert measured is not None
        return self.value(measured)

    def score(self, metrics: Metrics, rng: np.random.Generator) -> float:
        """What an engine is told: the logarithm of the ratio to the baseline's; lower is better."""
        if self.noisy is not None:
            return self.noisy(metrics, rng)
        return math.log(self.value(metrics) / self.baseline)


def compiled_objectives(cache: Cache, scratch: Path) -> Iterator[Objective]:
    """Code size of a C kernel, executed instructions of another, two metrics of a CUDA kernel where ptxas is found."""
    yield _of_c("pair_potential", "code_bytes", "code bytes", _machine_code, cache, scratch)
    count = scratch / "race_count"
    subprocess.run(["gcc", "-O2", BENCH / "race_count.c", "-o", count, "-ldl"], check=True)
    yield _of_c("stencil", "executed", "executed instructions", lambda made: _executed(made, count), cache, scratch)
    try:
        nvcc = find_tool("nvcc", None, Place(scratch, scratch)).program
    except EnvironmentFault as missing:
        print(f"no ptxas objectives: {missing}")
        return
    command = [nvcc, "-arch=sm_90a", "-O3", "-ptx", str(KERNELS / "cuda" / "matmul.cu"), "-o", "matmul.ptx"]
    subprocess.run(command, cwd=scratch, check=True, capture_output=True)
    # Launch bounds overrule --maxrregcount: without them registers, spills and instructions are to be weighed.
    free = LAUNCH_BOUNDS.sub("", (scratch / "matmul.ptx").read_text(encoding="utf-8"))
    (scratch / "matmul.ptx").write_text(free, encoding="utf-8")
    yield _of_ptxas("matmul", "registers + spilled words", _registers_and_spills, cache, scratch)
    yield _of_ptxas("matmul", "instructions", lambda metrics: float(metrics["instructions"]), cache, scratch)


# ── gcc ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_c(
    name: str, metric: str, what: str, read: Callable[[Path], Metrics | None], cache: Cache, scratch: Path
) -> Objective:
    cc = resolve_cc(Cc(f"{name}.c", flags="-O2"), Place(KERNELS, KERNELS))
    identity = sha256_hex(f"{cc.compiler.build} {cc.sources()} {cc.compiler.command}".encode())

    def measured(knobs: Mapping[str, Any]) -> Metrics | None:
        controls = cc.render(Candidate(knobs))
        return cache.get(f"build {identity} {controls.key}", lambda: _compiled(cc, name, controls, read, scratch))

    title = f"{name}.c -O2, {cc.compiler.name} {cc.compiler.version}: {what}"
    every_class = cc.space_with("options", cc.option_classes)  # nothing is run, so nothing can be wrong
    space = replace(every_class, presets=())  # which not every engine could be told of
    return Objective(title, identity, space, measured, lambda metrics: float(metrics[metric]))


def _compiled(
    compiler: CcBuilder, name: str, controls: ControlsFile, read: Callable[[Path], Metrics | None], scratch: Path
) -> Metrics | None:
    (scratch / "controls.rsp").write_bytes(controls.data)
    made = scratch / f"{name}.o"
    argv = [compiler.program.program, *compiler.flags.compile, f"@{scratch / 'controls.rsp'}", "-c", f"{name}.c"]
    try:
        done = subprocess.run([*argv, "-o", made], cwd=KERNELS, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return read(made) if done.returncode == 0 else None


def _machine_code(made: Path) -> Metrics:
    held = machine_code([made]).program
    return {"code": held.sha256, **held.metrics}


def _executed(made: Path, count: Path) -> Metrics | None:
    library = made.with_suffix(".so")
    subprocess.run(["ld", "-shared", made, "-o", library], check=True, capture_output=True)
    counted = subprocess.run([count, library], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return {**_machine_code(made), "executed": int(counted.stdout)} if counted.returncode == 0 else None


# ── ptxas ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_ptxas(name: str, what: str, value: Callable[[Metrics], float], cache: Cache, scratch: Path) -> Objective:
    ptxas = Ptxas(f"{name}.ptx", arch="sm_90a").resolve(Place(scratch, scratch))
    public = ptxas.space_with("options", ptxas.option_classes)
    space = Space(tuple(gene for gene in public.genes if not CACHE_KNOBS.match(gene.name)))
    identity = sha256_hex(f"{ptxas.compiler.build} {ptxas.sources()} {ptxas.compiler.command}".encode())

    def build(controls: ControlsFile) -> Metrics | None:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            try:
                built = ptxas.build(controls, Path(folder), timeout_s=TIMEOUT_S)
            except BuildError:
                return None
        return {"code": built.digest, **built.metrics}

    def measured(knobs: Mapping[str, Any]) -> Metrics | None:
        controls = ptxas.render(Candidate(knobs))
        return cache.get(f"build {identity} {controls.key}", lambda: build(controls))

    title = f"{name}.cu, ptxas {ptxas.compiler.version}: {what}"
    return Objective(title, identity, space, measured, value)


def _registers_and_spills(metrics: Metrics) -> float:
    return float(metrics["registers"]) + metrics["spill_bytes"] / 4
