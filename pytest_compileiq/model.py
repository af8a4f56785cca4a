"""The values that travel between the parts: what a compiler is told, what it made, what was measured, what is claimed.

In-process values are frozen dataclasses. What lies on disk as ``acf/<name>/<target>.toml`` is strict pydantic
(schema 1): unknown keys, wrong types and non-finite numbers are errors. Nothing here touches a file or a clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

SCHEMA = 1
ACF_NOTICE = "© NVIDIA Corporation, 2026."  # an ACF is drawn by CompileIQ, whose licence asks for it

KnobValue = bool | int | float | str
Knobs = Mapping[str, KnobValue]
Arm = Literal["baseline", "tuned"]
FailureKind = Literal["compile", "timeout", "crash", "wrong", "disturbed"]

TIMED_OBJECTIVES = frozenset({"runtime", "energy", "compile_time"})
CLOCKED = frozenset({"runtime", "energy"})  # taken while the callable runs that the body hands to measure()
EXACT_OBJECTIVES = frozenset({"registers", "spill_bytes", "code_bytes", "instructions"})
TAILS = {"p95": 0.95, "p99": 0.99}


def sha256_hex(data: bytes) -> str:
    """The lowercase hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


# ── what a compiler is told ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Candidate:
    """One set of controls under evaluation: named knobs, an opaque blob, or both."""

    knobs: Knobs
    blob: bytes | None = None
    origin: str = ""


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
class Objective:
    """A metric to minimise or maximise; timed metrics are sampled, exact ones are read from the build.

    ``metric`` names what is claimed: ``runtime``, or a tail of it, ``runtime@p99``.
    """

    metric: str
    direction: Literal["minimize", "maximize"]

    @property
    def measured(self) -> str:
        """What the clock takes: the metric without its tail."""
        return tail_of(self.metric)[0]

    @property
    def exact(self) -> bool:
        """Whether the metric is read from the build and needs no samples."""
        return self.metric in EXACT_OBJECTIVES

    @property
    def needs_device(self) -> bool:
        """Whether the kernel has to run; what only compiles is measured on any machine that compiles."""
        return not self.exact and self.metric != "compile_time"


def tail_of(metric: str) -> tuple[str, float]:
    """What is measured for ``metric``, and which quantile of a slot's samples is its value: the median or a tail."""
    measured, _, tail = metric.partition("@")
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
        known = ", ".join(sorted(values)) or "no values"
        raise AttributeError(f"workload {self.__dict__.get('name')!r} has {known}; it has no {key!r}")


@dataclass(frozen=True)
class Thresholds:
    """What a gain has to be, and what another workload may lose."""

    alpha: float = 0.01
    min_speedup: float = 1.005
    min_effect: float = 0.2
    max_regression: float = 0.01


# ── what it made ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class CodeDigest:
    """The machine code of one entry function: its digest and its exact metrics (counts, bytes)."""

    sha256: str
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildResult:
    """What one compiler run made.

    Attributes:
        path: the library, executable or cubin.
        code: entry function → digest.
        metrics: exact metrics of the whole build (``code_bytes``, ``instructions``, …).
        log: what the compiler printed, bounded.
        seconds: wall time of the compiler.
    """

    path: Path
    code: Mapping[str, CodeDigest]
    metrics: Mapping[str, int]
    log: str
    seconds: float

    @property
    def digest(self) -> str:
        """One digest over all entries: equal digests are equal machine code."""
        return sha256_hex("\n".join(f"{name} {code.sha256}" for name, code in sorted(self.code.items())).encode())


# ── what was measured ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SampleRow:
    """One raw sample, a line of the samples file. ``value`` is in the metric's unit (seconds for ``runtime``).

    ``slot`` counts 0..3 within its quad (ABBA or BAAB), ``sample`` counts within its slot.
    """

    device: str
    workload: str
    objective: str
    process: int
    quad: int
    slot: int
    arm: Arm
    sample: int
    value: float
    dropped: bool = False


# ── what lies on disk ────────────────────────────────────────────────────────────────────────────────────────────

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$")]
Text = Annotated[str, StringConstraints(max_length=2000)]
Count = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Stored(BaseModel):
    """Base of everything stored: frozen, strict, no unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Controls(Stored):
    """The ``[controls]`` table. ``file`` is a name beside the metadata, never a path."""

    kind: Literal["options", "blob"]
    file: FileName
    sha256: Digest
    size_bytes: Count
    knobs: dict[str, bool | int | Finite | str] = {}


class Compiler(Stored):
    """Which compiler: ``command`` is the resolved baseline command, paths relative to rootdir."""

    name: Text
    version: Text
    build: Text
    command: tuple[Text, ...]


class Fingerprint(Stored):
    """Digests of everything the artifact depends on. ``sources`` maps rootdir-relative paths to content digests."""

    benchmark: Digest
    command: Digest
    sources: dict[Text, Digest]


class StoredCode(Stored):
    """Digest and exact metrics of one arm of one entry function."""

    sha256: Digest
    metrics: dict[str, int] = {}


class CodePair(Stored):
    """One entry function, both arms. ``tuned`` is absent when the outcome is ``baseline``."""

    baseline: StoredCode
    tuned: StoredCode | None = None


class SearchRecord(Stored):
    """How the controls were found.

    ``failures`` counts the invalid evaluations by kind. ``improvements`` are the evaluations that were better than all
    before them, each with the first objective's gain over the baseline (2.0 is twice as good) as the search scored it.
    """

    engine: Text
    seed: int
    space: Digest
    evaluations: Count
    invalid: Count
    duplicates: Count
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    failures: Annotated[dict[Text, Count], Field(max_length=32)] = {}
    improvements: Annotated[tuple[tuple[Count, Ratio], ...], Field(max_length=500)] = ()


class DecisionRecord(Stored):
    """The parameters of the decision, enough to repeat it from the samples."""

    alpha: Probability
    level: Probability
    look: Annotated[int, Field(ge=1)]
    processes: Annotated[int, Field(ge=1)]
    flips: Count
    seed: int
    finalists: Annotated[int, Field(ge=1)]


class Summary(Stored):
    """Distribution of one arm's slot values, in the metric's unit. ``n`` counts slots."""

    n: Count
    mean: Finite
    std: Finite
    p5: Finite
    p50: Finite
    p95: Finite
    p99: Finite


class Claim(Stored):
    """On ``device``, for ``workload``, tuned against baseline on ``objective``.

    ``kind`` is ``gain`` or ``non-inferior`` (with statistics and a samples file) or ``exact`` (with two integers).
    ``speedup`` is baseline over tuned for minimised metrics, tuned over baseline for maximised ones.
    """

    device: Text
    workload: Text
    objective: Text
    kind: Literal["gain", "non-inferior", "exact"]
    architecture: Text | None = None
    driver: Text | None = None
    power_limit_w: Finite | None = None
    speedup: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    speedup_low: Finite | None = None
    speedup_high: Finite | None = None
    p_value: Probability | None = None
    cohens_d: Finite | None = None
    test: DecisionRecord | None = None
    samples: FileName | None = None
    baseline: Summary | None = None
    tuned: Summary | None = None
    baseline_value: int | None = None
    tuned_value: int | None = None

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        measured = (
            "speedup",
            "speedup_low",
            "speedup_high",
            "p_value",
            "cohens_d",
            "test",
            "samples",
            "baseline",
            "tuned",
        )
        exact = ("baseline_value", "tuned_value")
        needed, foreign = (exact, measured) if self.kind == "exact" else (measured, exact)
        if missing := [key for key in needed if getattr(self, key) is None]:
            raise ValueError(f"a claim of kind {self.kind!r} needs {', '.join(missing)}")
        if surplus := [key for key in foreign if getattr(self, key) is not None]:
            raise ValueError(f"a claim of kind {self.kind!r} has no {', '.join(surplus)}")
        return self


class FrontPoint(Stored):
    """One Pareto point of a search with several objectives."""

    controls: Controls
    metrics: dict[str, Finite]


class Withdrawn(Stored):
    """Machine code that was retired: a search never proposes it again. ``code`` is entry function → digest."""

    reason: Text
    code: dict[str, Digest]


class Provenance(Stored):
    """Where the artifact came from. ``dirty`` looks at the fingerprinted files only."""

    commit: Text | None = None
    dirty: bool | None = None
    tool: Text
    runner: Text | None = None
    notice: Text | None = None


class Artifact(Stored):
    """One ``acf/<name>/<target>.toml``: what it is, what it was proven on, the claims."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    benchmark: Text
    target: Name
    outcome: Literal["tuned", "baseline", "retired"]
    reason: Text | None = None
    controls: Controls | None = None
    compiler: Compiler
    fingerprint: Fingerprint
    code: dict[str, CodePair]
    search: SearchRecord
    claims: tuple[Claim, ...] = ()
    front: tuple[FrontPoint, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    provenance: Provenance

    @model_validator(mode="after")
    def _consistent(self) -> Artifact:
        if self.outcome == "tuned" and self.controls is None:
            raise ValueError('outcome "tuned" needs a [controls] table')
        if self.outcome == "tuned" and not self.claims:
            raise ValueError('outcome "tuned" needs at least one [[claims]] entry')
        if self.outcome == "baseline" and (self.controls or self.claims):
            raise ValueError('outcome "baseline" has neither [controls] nor [[claims]]')
        if self.outcome == "retired" and not self.reason:
            raise ValueError('outcome "retired" needs a reason')
        if self.outcome == "tuned" and any(pair.tuned is None for pair in self.code.values()):
            raise ValueError('outcome "tuned" needs the tuned digest of every [code] entry')
        return self
