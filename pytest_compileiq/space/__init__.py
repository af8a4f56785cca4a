"""Search spaces: what a search may vary, in CompileIQ's words, and the genes that engines work on."""

from pytest_compileiq.space.constraints import Predicate, Where
from pytest_compileiq.space.opaque import (
    SEARCH_SPACES_OF,
    SEARCH_SPACES_TAG,
    NvccSearchSpace,
    OpaqueSpace,
    PtxasSearchSpace,
)
from pytest_compileiq.space.parameters import OFF, Gene, Parameter, Point, choice, literal, log_sampling, range
from pytest_compileiq.space.space import Space

__all__ = [
    "OFF",
    "SEARCH_SPACES_OF",
    "SEARCH_SPACES_TAG",
    "Gene",
    "NvccSearchSpace",
    "OpaqueSpace",
    "Parameter",
    "Point",
    "Predicate",
    "PtxasSearchSpace",
    "Space",
    "Where",
    "choice",
    "literal",
    "log_sampling",
    "range",
]
