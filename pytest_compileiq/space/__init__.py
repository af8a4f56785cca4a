"""Search spaces: what a search may vary, in CompileIQ's words, and the genes that engines work on."""

from pytest_compileiq.space.gene import OFF, Gene, Point
from pytest_compileiq.space.opaque import (
    SEARCH_SPACES_OF,
    SEARCH_SPACES_TAG,
    NvccSearchSpace,
    OpaqueSpace,
    PtxasSearchSpace,
)
from pytest_compileiq.space.parameters import Parameter, choice, literal, log_sampling, range
from pytest_compileiq.space.space import Space
from pytest_compileiq.space.where import Predicate, Where

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
