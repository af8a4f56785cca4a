"""What bench/transfer.py searches: sizes and times of kernels over gcc's options, each made once and kept.

A build is a call of ``cc1`` and one of ``as``, of a source that was preprocessed once. A kernel that has a call is
timed in a forked process, beside its baseline: baseline, candidate, candidate, baseline, a ratio for each such turn.
What a search is told is drawn from every other one of them, what it is judged by is the median of the rest.
"""

import ctypes
import json
import math
import os
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

from pytest_compileiq.model import sha256_hex
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc

FLAGS = ("-march=x86-64-v3", "-fPIC")
TURNS, SLOT_S, DRAWN = 48, 2e-4, 11
BUILD_TIMEOUT_S, TIMING_TIMEOUT_S = 30.0, 10.0
_SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT);
"""


class Kept:
    """JSON values by key, in one SQLite file that several runs may share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, isolation_level=None, timeout=60)
        self._base.executescript(_SCHEMA)

    def get(self, key: str) -> Any:
        """The value, or None."""
        row = self._base.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, value: Any) -> None:
        """Keep ``value``."""
        self._base.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, json.dumps(value)))


@dataclass(frozen=True)
class Kernel:
    """One source.

    Attributes:
        family: equal for kernels that are near-duplicates or of one project: none of them teaches another.
        timed: whether it exports ``kernel(x, u, out)``.
    """

    name: str
    source: Path
    family: str
    timed: bool
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """What one set of knobs became: the digest of its machine code, and the bytes of it."""

    code: str
    code_bytes: int


class Landscape:
    """One kernel's builds and times.

    Args:
        level: of optimisation, of the baseline: ``-O2`` or ``-Os``.
        scratch: a directory of its own, for what is built.
    """

    def __init__(self, kernel: Kernel, level: str, kept: Kept, scratch: Path) -> None:
        self.kernel, self._kept, self._scratch = kernel, kept, scratch
        self._flags = (level, *FLAGS)
        self._made: Sequence[str] | None = None
        scratch.mkdir(parents=True, exist_ok=True)
        self._preprocessed = scratch / "kernel.i"
        command = ["gcc", "-E", "-P", *self._flags, *kernel.options, kernel.source, "-o", self._preprocessed]
        subprocess.run(command, check=True)
        self._identity = sha256_hex(self._preprocessed.read_bytes() + " ".join(self._flags).encode())[:16]
        self.baseline = self._required(self.built({}))

    @cached_property
    def space(self) -> Space:
        """What pytest --tune would search."""
        folder = self.kernel.source.parent
        flags = " ".join((self._flags[0], "-march=x86-64-v3", *self.kernel.options))
        builder = resolve(Cc(self.kernel.source.name, flags=flags), Place(folder, folder))
        return builder.space_with("options", frozenset())

    def built(self, knobs: Mapping[str, Any]) -> Built | None:
        """The build of ``knobs``; None where the compiler refuses them."""
        options = [f"{name}{value}" for name, value in knobs.items()]
        key = f"build {self._identity} {' '.join(options)}"
        if (value := self._kept.get(key)) is None:
            made = self._build(options)
            value = [made.code, made.code_bytes] if made else []
            self._kept.put(key, value)
        return Built(*value) if value else None

    def ratios(self, knobs: Mapping[str, Any]) -> Sequence[float]:
        """Times over the baseline's, ``TURNS`` of them; empty where it crashes or hangs."""
        built = self._required(self.built(knobs))
        key = f"time {self._identity} {built.code}"
        if (value := self._kept.get(key)) is None:
            value = self._timed([f"{name}{value}" for name, value in knobs.items()])
            self._kept.put(key, value)
        return [float(ratio) for ratio in value]

    @staticmethod
    def _required(built: Built | None) -> Built:
        assert built is not None
        return built

    def _build(self, options: Sequence[str]) -> Built | None:
        made, assembly = self._scratch / "made.o", self._scratch / "made.s"
        self._made = options
        argv = [_CC1, "-quiet", "-fpreprocessed", *self._flags, *options, self._preprocessed, "-o", assembly]
        for command in (argv, ["as", assembly, "-o", made]):
            try:
                done = subprocess.run(command, capture_output=True, timeout=BUILD_TIMEOUT_S, check=False)
            except subprocess.TimeoutExpired:
                return None
            if done.returncode != 0:
                return None
        with made.open("rb") as stream:
            sections = [each for each in ELFFile(stream).iter_sections() if each.name.startswith((".text", ".rodata"))]
            held = b"".join(each.data() for each in sections)
            return Built(sha256_hex(held)[:16], sum(each.data_size for each in sections if ".text" in each.name))

    def _timed(self, options: Sequence[str]) -> list[float]:
        candidate = self._library("candidate", options)
        return _forked(self._baseline_library, candidate)

    @cached_property
    def _baseline_library(self) -> Path:
        return self._library("baseline", ())

    def _library(self, name: str, options: Sequence[str]) -> Path:
        if self._made != options:
            self._build(options)
        library = self._scratch / f"{name}.so"
        command = ["ld", "-shared", self._scratch / "made.o", "-o", library]
        subprocess.run(command, check=True, capture_output=True)
        return library


_CC1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()


def _forked(baseline: Path, candidate: Path) -> list[float]:
    """The ratios, taken in a process that may crash or hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, json.dumps(_measured(baseline, candidate)).encode())
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + TIMING_TIMEOUT_S
    while time.monotonic() < until:
        ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            with os.fdopen(reading, "rb") as stream:
                text = stream.read()
            return [float(ratio) for ratio in json.loads(text)] if text else []
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(reading)
    return []


def _measured(baseline: Path, candidate: Path) -> list[float]:
    rng = np.random.default_rng(3)
    numbers, words = rng.uniform(0.5, 1.5, 4096).astype(np.float32), rng.integers(0, 2**32, 4096, dtype=np.uint32)
    written = np.zeros(65536, np.uint8)
    given = [each.ctypes.data_as(ctypes.c_void_p) for each in (numbers, words, written)]
    calls = [ctypes.CDLL(str(library)).kernel for library in (baseline, candidate)]

    def seconds(number: int, repeats: int) -> float:
        begun = time.perf_counter()
        for _ in range(repeats):
            calls[number](*given)
        return time.perf_counter() - begun

    seconds(1, 3)
    repeats = max(1, round(SLOT_S * 20 / max(seconds(0, 20), 1e-6)))
    ratios = []
    for _ in range(TURNS):
        before, first, second, after = (seconds(number, repeats) for number in (0, 1, 1, 0))
        ratios.append(round((first + second) / (before + after), 5))
    return ratios


@dataclass(frozen=True)
class Objective:
    """A logarithm of a ratio to the baseline's, to make small: of the code's bytes, or of time."""

    landscape: Landscape
    metric: str

    @property
    def name(self) -> str:
        """Its kernel and metric."""
        return f"{self.landscape.kernel.name} {self.metric}"

    def code(self, knobs: Mapping[str, Any]) -> str | None:
        """The digest of the machine code; None where there is none, or where it cannot be timed."""
        built = self.landscape.built(knobs)
        if built is None or (self.metric == "runtime" and not self.landscape.ratios(knobs)):
            return None
        return built.code

    def told(self, knobs: Mapping[str, Any], rng: np.random.Generator) -> float:
        """What a search is told of what has a ``code``."""
        if self.metric == "runtime":
            ratios = self.landscape.ratios(knobs)[::2]
            return math.log(statistics.median(rng.choice(ratios, DRAWN)))
        return self.judged(knobs)

    def judged(self, knobs: Mapping[str, Any]) -> float:
        """What a search is judged by."""
        if self.metric == "runtime":
            return math.log(statistics.median(self.landscape.ratios(knobs)[1::2]))
        built = self.landscape.built(knobs)
        assert built is not None
        return math.log(built.code_bytes / self.landscape.baseline.code_bytes)
