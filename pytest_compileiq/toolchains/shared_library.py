"""A built shared library in this process, remembering which of its functions were taken."""

from __future__ import annotations

import ctypes
from typing import Any

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult


class SharedLibrary(ctypes.CDLL):
    """A ``ctypes.CDLL`` whose functions, once taken, are in ``used``."""

    used: set[str]

    def __getitem__(self, name_or_ordinal: Any) -> Any:
        function = super().__getitem__(name_or_ordinal)
        self.used.add(str(name_or_ordinal))
        return function


def load_library(built: BuildResult, used: set[str]) -> SharedLibrary:
    """Load ``built``.

    Raises:
        BuildError: it cannot be loaded here.
    """
    try:
        library = SharedLibrary(str(built.path))
    except OSError as error:
        raise BuildError(f"the built library cannot be loaded: {error}", kind="compile", log=built.log) from error
    library.used = used
    return library
