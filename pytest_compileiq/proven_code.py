"""The proven machine code as ``[code]`` records it: digests and exact metrics of both arms, by entry function."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field

from pytest_compileiq.model import BuildResult, CodeDigest
from pytest_compileiq.stored import Digest, Metrics, Stored, Symbol


class StoredCode(Stored):
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

    @classmethod
    def replacing(cls, before: StoredCode | None, code: CodeDigest) -> StoredCode:
        """The record of ``code``, in the place of ``before``."""
        first = before.proven_as if before and code.is_recorded_as(before.sha256) else code.sha256
        return cls(
            sha256=code.sha256,
            metrics=dict(code.metrics),
            symbol=code.symbol,
            first=None if first == code.sha256 else first,
        )


class CodePair(Stored):
    """One entry function, both arms. ``tuned`` is absent when the outcome is ``baseline``."""

    baseline: StoredCode
    tuned: StoredCode | None = None

    @property
    def proven_as(self) -> tuple[str, str | None]:
        """The digests that both arms were first recorded by."""
        return self.baseline.proven_as, self.tuned.proven_as if self.tuned else None


Code = Mapping[str, CodePair]


def stored_code(
    baseline: BuildResult, tuned: BuildResult | None, before: Code = MappingProxyType({})
) -> dict[str, CodePair]:
    """The ``[code]`` tables of two builds, in the place of those ``before``."""
    tables = {}
    for entry, code in sorted(baseline.code.items()):
        other, pair = tuned.code.get(entry) if tuned else None, before.get(entry)
        tables[entry] = CodePair(
            baseline=StoredCode.replacing(pair.baseline if pair else None, code),
            tuned=StoredCode.replacing(pair.tuned if pair else None, other) if other else None,
        )
    return tables


def is_same_code(one: Code, other: Code) -> bool:
    """Whether two records are of the same machine code."""
    return {entry: pair.proven_as for entry, pair in one.items()} == {
        entry: pair.proven_as for entry, pair in other.items()
    }
