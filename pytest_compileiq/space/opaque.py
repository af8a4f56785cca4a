"""The compilers' hidden controls, which only NVIDIA's CompileIQ draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_compileiq.spelling import did_you_mean

SEARCH_SPACES_TAG = "search-spaces-2026.05.22"
SEARCH_SPACES_OF = "13.3"  # the one minor version of NVIDIA's compilers that the release is for
_VARIANTS = {"ptxas": ("default", "att"), "nvcc": ("default",)}  # of the release


@dataclass(frozen=True)
class OpaqueSpace:
    """A compiler's hidden controls, published encrypted: only NVIDIA's CompileIQ draws from it."""

    compiler: Literal["ptxas", "nvcc"]
    version: str  # the compiler's line
    variant: str  # ``default``, or one curated for a kind of kernel (``att`` for attention)
    tag: str  # of a release; pinned, since ``latest`` would be another space tomorrow

    @property
    def line(self) -> str:
        """The compiler's line that takes its draws, e.g. ``ptxas13.3``."""
        return self.compiler + self.version

    def why_not(self) -> str | None:
        """Why the pinned release has no such space; None where it has, and for other releases, which are not known."""
        variants = _VARIANTS[self.compiler]
        if self.tag != SEARCH_SPACES_TAG or (self.version == SEARCH_SPACES_OF and self.variant in variants):
            return None
        there = " and ".join(repr(variant) for variant in variants)
        what = f"{self.compiler} {self.version} space {self.variant!r}"
        if self.variant not in variants:
            what += did_you_mean(self.variant, variants)
        return f"CompileIQ's release {self.tag} has no {what}: of {self.compiler} it has {SEARCH_SPACES_OF}, {there}"

    def __str__(self) -> str:
        return f"CompileIQ's {self.compiler} {self.version} space {self.variant!r} ({self.tag})"


def PtxasSearchSpace(  # noqa: N802 - CompileIQ's name
    version: str = SEARCH_SPACES_OF, variant: str = "default", tag: str = SEARCH_SPACES_TAG
) -> OpaqueSpace:
    """CompileIQ's space of ptxas controls; ``variant="att"`` is curated for attention kernels."""
    return OpaqueSpace("ptxas", version, variant, tag)


def NvccSearchSpace(  # noqa: N802 - CompileIQ's name
    version: str = SEARCH_SPACES_OF, variant: str = "default", tag: str = SEARCH_SPACES_TAG
) -> OpaqueSpace:
    """CompileIQ's space of nvcc controls, which take effect on sm_100 and newer."""
    return OpaqueSpace("nvcc", version, variant, tag)
