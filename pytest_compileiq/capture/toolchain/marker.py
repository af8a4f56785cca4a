"""The marker's words for a captured kernel; what they do is in ``pytest_compileiq.capture.toolchain.builder``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

# Every tuned test file imports this module, in runs that tune nothing too: it must cost nothing.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.functions import Neighbours


@dataclass(frozen=True, init=False)
class Captured:
    """A function that ``acf capture`` recorded, built as ``Cc`` builds it; ``load()`` gives a ``RecordedKernel``.

    Args:
        kernel: its directory in a capture, relative to the test file: ``"acf-capture/gather"``.
        sources: its source, as of ``Cc``.
        flags: the baseline's flags, as of ``Cc``: those that the program's library is built with.
        compiler: as of ``Cc``.
        like: as of ``Cc``: the compilation database of the library's build.
        neighbours: as of ``Cc``: what becomes of a candidate that changes other functions of the sources.
    """

    kernel: str
    sources: tuple[str, ...]
    flags: str | None
    compiler: str | None
    like: str | None
    neighbours: Neighbours

    def __init__(
        self,
        kernel: str,
        *sources: str,
        flags: str | None = None,
        compiler: str | None = None,
        like: str | None = None,
        neighbours: Neighbours = "void",
    ) -> None:
        given = {"kernel": kernel, "sources": sources, "flags": flags, "compiler": compiler, "like": like}
        self.__dict__.update(given, neighbours=neighbours)

    def resolve(self, place: Place) -> Builder:
        """Find the compiler and fix everything that depends on this host.

        Raises:
            EnvironmentFault: the compiler is not installed or does not answer.
            MarkerError: a source is missing, a flag cannot be used, or there is no such kernel.
        """
        from pytest_compileiq.capture.toolchain.builder import resolve  # heavy, and collecting does without

        return resolve(self, place)
