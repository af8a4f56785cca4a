"""What lies on disk as ``acf/<name>/<target>.toml``: strict pydantic, schema 1.

Unknown keys, wrong types and non-finite numbers are errors, and everything has a bound: far above what an honest
artifact holds, and low enough that a hostile one costs little time and memory. Workers never read an artifact, and must
start fast: what they work with is in ``model``, which does without pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from pytest_compileiq.claim import Claim
from pytest_compileiq.model import (
    CONTROL_CLASSES,
    HOST,
    PARAMS,
    ArchitectureFrom,
    BuildResult,
    CodeDigest,
    ControlClass,
    Direction,
    LoadChange,
    digest_of_command,
)
from pytest_compileiq.reduction import Attribution, Reduction
from pytest_compileiq.table import (
    Array,
    Count,
    Digest,
    FileName,
    Finite,
    Integer,
    Metrics,
    Name,
    Ratio,
    Seconds,
    Symbol,
    Table,
    Text,
)

SCHEMA = 1
MOST_LICENCES = 100
MAX_CONTROLS_BYTES = 1 << 20
MOST_OBJECTIVES = 32
MOST_FLIPPED_PROCESSES = 1 << 27  # flips times processes, of all claims together: recomputing them takes seconds
ACF_NOTICE = "© NVIDIA Corporation, 2026."  # an ACF is drawn by CompileIQ, whose licence asks for it


class Controls(Table):
    """The ``[controls]`` table. ``file`` is a name beside the metadata, never a path."""

    kind: Literal["options", "blob"]
    file: FileName
    sha256: Digest
    size_bytes: Annotated[int, Field(ge=0, le=MAX_CONTROLS_BYTES)]
    knobs: Annotated[dict[Text, bool | Integer | Finite | Text], Field(max_length=2000)] = Field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, int]:
        """The least and the largest number of controls: a parameter or macro may have the baseline's value."""
        acf = int(self.kind == "blob")
        options = [name for name in self.knobs if name.startswith("-") and not name.startswith("-D")]
        return len(options) + acf, len(self.knobs) + acf


class LicenceTable(Table):
    """A ``Licence`` on disk."""

    name: Text
    allows: ControlClass
    where: Text
    remedy: Text


class LoadChangeTable(Table):
    """A ``LoadChange`` on disk."""

    words: Annotated[Array[Text], Field(max_length=10)]
    because: Text
    altered: Count
    functions: Count

    __str__ = LoadChange.__str__


class CompilerTable(Table):
    """Which compiler: a ``Compiler`` on disk."""

    name: Text
    version: Text
    build: Text
    command: Annotated[Array[Text], Field(max_length=5000)]
    architecture_from: ArchitectureFrom = "test"
    change: LoadChangeTable | None = None

    @property
    def compiles(self) -> bool:
        """As ``Compiler.compiles``."""
        return self.name != PARAMS

    @property
    def apart(self) -> frozenset[str]:
        """Entries of its builds that are no functions: ``Functions.apart`` of the toolchain, without the test."""
        return frozenset({HOST}) if self.name == "nvcc" else frozenset()


class FingerprintTable(Table):
    """A ``Fingerprint`` on disk. Older ones have no ``parts``, no ``values`` or no ``environment``."""

    benchmark: Digest
    command: Digest
    sources: Annotated[dict[Text, Digest], Field(max_length=20_000)]
    parts: Annotated[dict[Text, Digest], Field(max_length=20_000)] = Field(default_factory=dict)
    values: Annotated[dict[Text, Digest], Field(max_length=20_000)] = Field(default_factory=dict)
    environment: Annotated[dict[Text, Text], Field(max_length=100)] = Field(default_factory=dict)


class CodeTable(Table):
    """Digest and exact metrics of one arm of one entry function; ``symbol`` as in ``CodeDigest``.

    ``first`` is the digest that an earlier version of this tool recorded of the same code; absent where there is none.
    """

    sha256: Digest
    metrics: Metrics = Field(default_factory=dict)
    symbol: Symbol | None = None
    first: Digest | None = None

    @property
    def proven_as(self) -> str:
        """The digest that the code was first recorded by, which a new format of digests leaves as it is."""
        return self.first or self.sha256


class CodePair(Table):
    """One entry function, both arms. ``tuned`` is absent when the outcome is ``baseline``."""

    baseline: CodeTable
    tuned: CodeTable | None = None

    @property
    def proven_as(self) -> tuple[str, str | None]:
        """The digests that both arms were first recorded by."""
        return self.baseline.proven_as, self.tuned.proven_as if self.tuned else None


class SearchRecord(Table):
    """How the controls were found. ``transferred`` are the artifacts that taught the search, each as name/target.

    ``failures`` counts the invalid evaluations by kind. ``improvements`` are those that were better than all before
    them, with the gain over the baseline (2.0 is twice as good) as scored, where that is a ratio. ``objectives`` are
    the marker's, with the direction that is better; older records lack them. ``portfolio`` names the sets of options
    that were tried first.
    """

    engine: Text
    seed: Count
    space: Digest
    evaluations: Count
    invalid: Count
    duplicates: Count
    seconds: Seconds
    objectives: Annotated[dict[Text, Direction], Field(max_length=MOST_OBJECTIVES)] = Field(default_factory=dict)
    failures: Annotated[dict[Text, Count], Field(max_length=32)] = Field(default_factory=dict)
    improvements: Annotated[Array[Annotated[tuple[Count, Ratio], Strict(False)]], Field(max_length=500)] = ()
    transferred: Annotated[Array[Text], Field(max_length=100)] = ()
    portfolio: Text = ""


class FrontPoint(Table):
    """One Pareto point of a search with several objectives.

    ``metrics`` are ratios to the baseline's, and ``shifts`` differences from it as shares of its magnitude, of metrics
    that may be zero or negative. They are estimates of the search: they choose what to prove, and prove nothing.
    """

    controls: Controls
    metrics: Annotated[dict[Text, Finite], Field(max_length=100)]
    shifts: Annotated[dict[Text, Finite], Field(max_length=100)] = Field(default_factory=dict)


class Withdrawn(Table):
    """Machine code that was retired: a search never proposes it again. ``code`` is entry function → digest."""

    reason: Text
    code: Annotated[dict[Symbol, Digest], Field(max_length=20_000)]

    def is_of(self, code: Mapping[str, CodeDigest]) -> bool:
        """Whether a build is of this machine code."""
        return self.code.keys() == code.keys() and all(code[entry].is_recorded_as(self.code[entry]) for entry in code)


class Provenance(Table):
    """Where the artifact came from. ``dirty``: something that the fingerprint covers differed from ``commit``."""

    commit: Text | None = None
    dirty: bool | None = None
    tool: Text
    runner: Text | None = None
    notice: Text | None = None


class Artifact(Table):
    """One ``acf/<name>/<target>.toml``: what it is, what it was proven on, the claims.

    ``outcome``: ``tuned``, proven controls; ``baseline``, measured, and nothing beats the defaults; ``promoted``, a
    point of the front that was chosen and is not proven yet; ``retired``, withdrawn for ``reason``.
    ``functions`` are the entry functions that the test stands for, where its toolchain says so.
    ``classes`` are those of its controls, narrowest first, for a reader: a program derives them from the knobs, and
    takes the file for damaged where they differ. ``licences`` are what the baseline and the sources allow besides;
    None where nobody looked.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    benchmark: Text
    target: Name
    outcome: Literal["tuned", "baseline", "promoted", "retired"]
    reason: Text | None = None
    functions: Annotated[Array[Symbol], Field(max_length=20_000)] = ()
    classes: Annotated[Array[ControlClass], Field(max_length=len(CONTROL_CLASSES))] = ()
    licences: Annotated[Array[LicenceTable], Field(max_length=MOST_LICENCES)] | None = None
    controls: Controls | None = None
    compiler: CompilerTable
    fingerprint: FingerprintTable
    code: Annotated[dict[Symbol, CodePair], Field(max_length=20_000)]
    search: SearchRecord
    claims: Annotated[Array[Claim], Field(max_length=1000)] = ()
    front: Annotated[Array[FrontPoint], Field(max_length=100)] = ()
    withdrawn: Annotated[Array[Withdrawn], Field(max_length=1000)] = ()
    reduction: Reduction | None = None
    attribution: Attribution | None = None
    provenance: Provenance

    @property
    def unreduced(self) -> int:
        """The number of controls as they were found; 0 where it is one, or they were reduced."""
        if self.controls is None or self.outcome != "tuned" or self.reduction is not None:
            return 0
        _, count = self.controls.counts
        return count if count > 1 else 0

    @model_validator(mode="after")
    def _consistent(self) -> Artifact:
        if self.outcome == "tuned" and self.controls is None:
            raise ValueError('outcome "tuned" needs a [controls] table')
        if self.outcome == "tuned" and not self.claims:
            raise ValueError('outcome "tuned" needs at least one [[claims]] entry')
        if self.outcome == "baseline" and (self.controls or self.claims):
            raise ValueError('outcome "baseline" has neither [controls] nor [[claims]]')
        if self.outcome == "promoted" and (self.claims or not self.controls):
            raise ValueError('outcome "promoted" needs a [controls] table, and has no [[claims]] until it is proven')
        if self.outcome in ("promoted", "retired") and not self.reason:
            raise ValueError(f'outcome "{self.outcome}" needs a reason')
        if not self.compiler.compiles and self.fingerprint.command != digest_of_command(self.compiler.command):
            raise ValueError("compiler.command holds other defaults than fingerprint.command")
        if self.outcome == "tuned" and any(pair.tuned is None for pair in self.code.values()):
            raise ValueError('outcome "tuned" needs the tuned digest of every [code] entry')
        keys = [(claim.device, claim.workload, claim.objective) for claim in self.claims]
        if len(set(keys)) < len(keys):
            raise ValueError("two claims are about one device, workload and objective")
        if len({claim.objective for claim in self.claims}) > MOST_OBJECTIVES:
            raise ValueError(f"the claims are about more than {MOST_OBJECTIVES} objectives")
        if problem := self._problem_of_kept_controls():
            raise ValueError(problem)
        if sum(claim.test.flips * claim.test.processes for claim in self.claims if claim.test) > MOST_FLIPPED_PROCESSES:
            raise ValueError(
                "the claims' randomisation tests take too many flips to be repeated: tune fewer workloads at once"
            )
        return self

    def _problem_of_kept_controls(self) -> str | None:
        """What the tables about the stored controls say that these do not."""
        tables = [name for name in ("reduction", "attribution") if getattr(self, name) is not None]
        if self.controls is None:
            return f"[{tables[0]}] is about controls, and there is no [controls] table" if tables else None
        least, most = self.controls.counts
        if self.reduction is not None and not least <= self.reduction.after <= most:
            return f"[reduction] says that {self.reduction.after} controls stay, and there are {most}"
        if self.attribution is None:
            return None
        named = {name for entry in self.attribution.without for name in entry.knobs}
        foreign = sorted(named.difference(self.controls.knobs))
        if self.controls.kind != "blob" and any(entry.acf for entry in self.attribution.without):
            foreign.append("an ACF")
        return f"[attribution] is about {foreign[0]:.200}, which the controls do not hold" if foreign else None


Code = Mapping[str, CodePair]


def stored_code(
    baseline: BuildResult, tuned: BuildResult | None, before: Code = MappingProxyType({})
) -> dict[str, CodePair]:
    """The ``[code]`` tables of two builds, in the place of those ``before``."""

    def table(before: CodeTable | None, code: CodeDigest) -> CodeTable:
        first = before.proven_as if before and code.is_recorded_as(before.sha256) else code.sha256
        kept = None if first == code.sha256 else first
        return CodeTable(sha256=code.sha256, metrics=dict(code.metrics), symbol=code.symbol, first=kept)

    tables = {}
    for entry, code in sorted(baseline.code.items()):
        other, pair = tuned.code.get(entry) if tuned else None, before.get(entry)
        tables[entry] = CodePair(
            baseline=table(pair.baseline if pair else None, code),
            tuned=table(pair.tuned if pair else None, other) if other else None,
        )
    return tables


def is_same_code(one: Code, other: Code) -> bool:
    """Whether two records are of the same machine code."""
    first, second = ({entry: pair.proven_as for entry, pair in code.items()} for code in (one, other))
    return first == second
