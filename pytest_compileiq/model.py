"""The values that travel between the parts: controls, compilers, builds and objectives; those on disk: ``artifact``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_compileiq.spelling import did_you_mean

KnobValue = bool | int | float | str
Knobs = Mapping[str, KnobValue]
Arm = Literal["baseline", "tuned"]
ARMS: tuple[Arm, Arm] = ("baseline", "tuned")
Direction = Literal["minimize", "maximize"]
LockClocks = int | Literal["base"] | None  # a GPU's, while it is measured: MHz, its base clock, or as they come
Launch = Literal["graph", "eager"]  # all calls of a sample as one CUDA graph, or one by one
L2 = Literal["flush", "warm"]
CheckedBy = Literal["outputs", "check"]  # by what they hold each time, or by the check that the test gives
FailureKind = Literal["compile", "timeout", "crash", "wrong", "neighbour", "limit", "disturbed", "lost"]
ArchitectureFrom = Literal["test", "machine", "default"]

# What a control may change of a kernel's results and contracts, narrowest first; docs/reference/classes.md.
ControlClass = Literal[
    "value-safe", "environment", "contraction", "order", "relaxed-maths", "relaxed-semantics", "hardening", "opaque"
]
CONTROL_CLASSES: tuple[ControlClass, ...] = get_args(ControlClass)

TIMED_OBJECTIVES = frozenset({"runtime", "energy", "compile_time"})
CLOCKED = frozenset({"runtime", "energy"})  # taken while the callable that the body hands to measure() runs
EXACT_OBJECTIVES = frozenset({"registers", "spill_bytes", "code_bytes", "instructions"})
TAILS = {"p95": 0.95, "p99": 0.99}

HOST = "host"  # in the place of an entry function: all host code of a CUDA build, which is no function
UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # what one specimen of a device is called
MOST_DEVICES = 60  # of one claim
FLEET = 5  # devices from which on a claim speaks for others: Student's quantile at the gate's level is 5; with 3, 12
LEAST_PROCESSES = 4  # on each of several devices

PARAMS = "params"  # the name, in the place of a compiler's, under which a toolchain is recorded that compiles nothing

MOST_LESSONS = 8  # of one search

# What an artifact can hold, and so what a knob may be.
LONGEST_TEXT = 2000
LARGEST_NUMBER = 1e30
MOST_DRAWS = 10_000  # of one stress
INTEGERS = range(-(2**63), 2**63)


def sha256_hex(data: bytes) -> str:
    """The lowercase hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def digest_of_command(command: Sequence[str]) -> str:
    """What a fingerprint holds of a compiler's command, or of the defaults where nothing is compiled."""
    return sha256_hex("\0".join(command).encode())


def digest_of_code(entries: Mapping[str, str]) -> str:
    """One digest over the machine code of a whole build: entry function → digest."""
    return sha256_hex("\n".join(f"{entry}\0{entries[entry]}" for entry in sorted(entries)).encode())


@dataclass(frozen=True)
class Candidate:
    """One set of controls under evaluation: named knobs, an opaque blob, or both."""

    knobs: Knobs
    blob: bytes | None = None
    origin: str = ""


@dataclass(frozen=True)
class Lesson:
    """Seed candidates from an artifact of another kernel, or of the same one elsewhere."""

    artifact: str  # name and target, as in lz4/x86-64-v3-gcc12
    digest: str  # SHA-256 of its metadata
    knobs: Knobs  # a point of the space here
    weight: float  # the likeness of its kernel to the one here, above 0 and at most 1


@dataclass(frozen=True)
class ControlsFile:
    """The controls as the compiler reads them: ``data`` is the file, ``knobs`` what it was rendered from."""

    kind: Literal["options", "blob"]
    data: bytes
    knobs: Knobs

    @property
    def sha256(self) -> str:
        """The digest that names the file."""
        return sha256_hex(self.data)

    @property
    def key(self) -> str:
        """The digest of all that a build may depend on: the file, and the knobs that lie outside it."""
        knobs = json.dumps(sorted((name, type(value).__name__, value) for name, value in self.knobs.items()))
        return sha256_hex(self.data + b"\0" + knobs.encode())


@dataclass(frozen=True)
class Licence:
    """A change that the baseline or the source already allows a compiler, so that bits may differ under any control."""

    name: str  # contraction, libm folding, simd reduction, fast maths
    allows: ControlClass  # that any control then has in effect
    where: str  # the flag, or the file and line, that gives it
    remedy: str  # -ffp-contract=off in the toolchain's flags


class Target(str):
    """Architectures and compiler line of an artifact: ``x86-64-v3-gcc12``, ``sm_90a.sm_100a-nvcc13.3``."""

    __slots__ = ()

    @classmethod
    def of(cls, architecture: str, line: str) -> Target:
        """The target of an architecture and a compiler's line."""
        return cls(f"{architecture}-{line}")

    @property
    def architecture(self) -> str:
        """``x86-64-v3``, ``sm_90a.sm_100a``."""
        return self.rpartition("-")[0]

    @property
    def architectures(self) -> tuple[str, ...]:
        """The architectures one by one: ``sm_90a.sm_100a`` is two."""
        return tuple(self.architecture.split(".")) if self.architecture.startswith("sm_") else (self.architecture,)

    @property
    def line(self) -> str:
        """The compiler's line: ``gcc12``, ``nvcc13.3``."""
        return self.rpartition("-")[2]


@dataclass(frozen=True)
class Objective:
    """A metric to minimise or maximise; timed metrics are sampled, exact ones are read from the build."""

    metric: str  # runtime, or a tail of it, runtime@p99; registers, or of some entry functions, registers of kernel*
    direction: Direction

    @property
    def measured(self) -> str:
        """The metric without its tail and without its entry functions."""
        return tail_of(self.metric)[0]

    @property
    def exact(self) -> bool:
        """Whether the metric is read from the build and needs no samples."""
        return self.measured in EXACT_OBJECTIVES

    @property
    def is_score(self) -> bool:
        """Whether it is a number of the body's own, which may be zero or negative."""
        return is_score(self.metric)

    @property
    def needs_device(self) -> bool:
        """Whether the kernel has to run; a compilation is measured on any machine that compiles."""
        return not self.exact and self.metric != "compile_time"


def is_score(metric: str) -> bool:
    """Whether it is a number of the body's own: no time, no energy, no count, which are all minimised."""
    return tail_of(metric)[0] not in TIMED_OBJECTIVES | EXACT_OBJECTIVES


def of_entries(metric: str) -> tuple[str, str | None]:
    """``registers``, and the pattern of its entry functions; None for the whole build."""
    measured, of, pattern = metric.partition(" of ")
    return measured, pattern if of else None


def tail_of(metric: str) -> tuple[str, float]:
    """The measured metric, and the quantile of a slot's samples that is its value: the median or a tail."""
    measured, _, tail = of_entries(metric)[0].partition("@")
    return measured, TAILS.get(tail, 0.5)


@dataclass(frozen=True)
class Workload:
    """One named input of the benchmark. Weight 0 is checked for correctness and never timed.

    The values given in the marker are attributes: ``acf.workload.q``.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0

    def __getattr__(self, key: str) -> Any:
        values = object.__getattribute__(self, "__dict__").get("values", {})
        if key in values:
            return values[key]
        name, known = self.__dict__.get("name"), ", ".join(sorted(values)) or "no value at all"
        raise AttributeError(f"workload {name!r} has no value {key!r}{did_you_mean(key, values)}: it has {known}")


@dataclass(frozen=True)
class Thresholds:
    """The least gain, and the largest loss of another workload."""

    alpha: float = 0.01
    min_speedup: float = 1.005
    min_effect: float = 0.2
    max_regression: float = 0.01


@dataclass(frozen=True)
class LoadChange:
    """What production's command got to have its objects loaded, and how many of its functions are other code by it.

    ``because``: the relocation that the linker refuses without.
    """

    words: tuple[str, ...]
    because: str
    altered: int
    functions: int

    def __str__(self) -> str:
        return (
            f"{' '.join(self.words)} (added, since production's objects cannot be loaded as they are: {self.because}; "
            f"it alters {self.altered} of {self.functions} functions)"
        )


@dataclass(frozen=True)
class Compiler:
    """Which compiler, with the resolved baseline command, paths relative to rootdir.

    ``architecture_from``: the test's own text, this machine (``-march=native``), or the compiler's default.
    ``change``: of production's command, where there is one.
    """

    name: str
    version: str
    build: str
    command: tuple[str, ...]
    architecture_from: ArchitectureFrom = "test"
    change: LoadChange | None = None

    @property
    def compiles(self) -> bool:
        """Whether there is machine code; else ``build`` names packages, and ``command`` the defaults."""
        return self.name != PARAMS


@dataclass(frozen=True)
class Fingerprint:
    """Digests of everything a result depends on."""

    benchmark: str
    command: str
    sources: Mapping[str, str]  # by path relative to rootdir
    parts: Mapping[str, str] = field(default_factory=dict)  # of the benchmark: they tell its change, and decide nothing
    values: Mapping[str, str] = field(default_factory=dict)  # of the test's inputs
    environment: Mapping[str, str] = field(default_factory=dict)  # name → value


@dataclass(frozen=True)
class CodeDigest:
    """The machine code of one entry function."""

    sha256: str
    metrics: Mapping[str, int] = field(default_factory=dict)  # exact ones: counts, bytes
    symbol: str | None = None  # its name in the file, where the build calls it otherwise
    former: tuple[str, ...] = field(default=(), compare=False)  # by earlier versions of this tool: still valid

    def is_recorded_as(self, sha256: str) -> bool:
        """Whether ``sha256`` is the digest of this code, by this version or an earlier one."""
        return sha256 in (self.sha256, *self.former)


@dataclass(frozen=True)
class BuildResult:
    """The output of one compiler run."""

    path: Path  # of the library, executable or cubin
    code: Mapping[str, CodeDigest]  # by entry function
    metrics: Mapping[str, int]  # exact ones of the whole build: code_bytes, instructions, …
    log: str  # of the compiler, bounded
    seconds: float  # of wall time
    cached: str = ""  # when it was made, of a build from the build cache

    @property
    def digest(self) -> str:
        """One digest over all entries: equal digests are equal machine code."""
        return sha256_hex("\n".join(f"{name} {code.sha256}" for name, code in sorted(self.code.items())).encode())
