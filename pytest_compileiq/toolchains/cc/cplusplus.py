"""Which sources are C++, and C++ by a compiler of C: it compiles, and links without the C++ library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_compileiq.errors import BuildError
from pytest_compileiq.toolchains.cc.compiler import CcCompiler

_SUFFIXES = frozenset({".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".ii"})
_UNDEFINED = ("undefined reference", "undefined symbol")


def is_cplusplus(source: str) -> bool:
    """Whether ``source`` is C++ by its name, as gcc tells."""
    return Path(source).suffix in _SUFFIXES


@contextmanager
def naming_the_cplusplus_compiler(sources: Sequence[str], compiler: CcCompiler) -> Iterator[None]:
    """Add to an error about an undefined symbol which compiler links C++, where one of C was given C++.

    Raises:
        BuildError: as raised inside.
    """
    try:
        yield
    except BuildError as error:
        cplusplus = next((source for source in sources if is_cplusplus(source)), None)
        wanted = "clang++" if compiler.name == "clang" else "g++"
        if cplusplus is None or compiler.links_cplusplus or not any(sign in str(error) for sign in _UNDEFINED):
            raise
        hint = f"{error}; {cplusplus} is C++, which links with its library where compiler={wanted!r}"
        raise BuildError(hint, kind=error.kind, log=error.log) from error
