"""What a toolchain is: how one compiler builds a kernel with controls.

A marker names an unresolved toolchain (``Cc("k.c")``); ``Toolchain.resolve`` finds the compiler, resolves flags
that name the host, and gives a ``Builder``, which everything else works with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pytest_compileiq.model import BuildResult, Candidate, Compiler, ControlsFile, Knobs
from pytest_compileiq.space import Space


@dataclass(frozen=True)
class Place:
    """Where a marker stands: toolchain paths are relative to ``test_dir``, recorded paths to ``rootdir``."""

    test_dir: Path
    rootdir: Path


@runtime_checkable
class Toolchain(Protocol):
    """The marker's first argument. Equal arguments give equal toolchains."""

    def resolve(self, place: Place) -> Builder:
        """Find the compiler and fix everything that depends on this host.

        A tuning run asks once more with the place of a copy of the project, which holds the files that ``sources``
        names: what is built there has to be the same machine code.

        Raises:
            EnvironmentFault: the compiler is not installed, naming what was looked for and how to get it.
            MarkerError: a source is missing or a flag cannot be used, naming it.
        """
        ...


@runtime_checkable
class Counts(Protocol):
    """A ``Builder`` some of whose metrics take a program of their own, such as a disassembler.

    They are taken where an objective names one: a search builds hundreds of times.
    """

    def count(self, built: BuildResult) -> Mapping[str, int]:
        """Those metrics of what was built, from the files beside it; without one that cannot be told here."""
        ...


@runtime_checkable
class TakesKnobs(Protocol):
    """A ``Builder`` that says which knobs, of those not beginning with ``-``, its builds take.

    All others are for the test's body, as ``acf.params``: one that the body does not ask for changes nothing.
    """

    @property
    def knobs_taken(self) -> frozenset[str]: ...  # noqa: D102 - see above


class Builder(Protocol):
    """One compiler, found, on one kernel. Immutable; safe to use from several threads.

    Attributes:
        compiler: name, version, build and the resolved baseline command (paths relative to rootdir).
        architecture: what selects an artifact, e.g. ``x86-64-v3``.
        target: architecture and compiler line, e.g. ``x86-64-v3-gcc12``.
        clock: which clock times its kernels.
        acf_line: whose ACFs it applies, e.g. ``ptxas13.3``; None when it takes none.
        native: whether this machine can run what it builds (a reason when it cannot, else None).
    """

    @property
    def compiler(self) -> Compiler: ...  # noqa: D102 - see Attributes
    @property
    def architecture(self) -> str: ...  # noqa: D102
    @property
    def target(self) -> str: ...  # noqa: D102
    @property
    def clock(self) -> str: ...  # noqa: D102
    @property
    def acf_line(self) -> str | None: ...  # noqa: D102
    @property
    def native(self) -> str | None: ...  # noqa: D102

    def default_space(self) -> Space | None:
        """The compiler's own space, checked against the installed compiler; None when it has none."""
        ...

    def option_space(self) -> Space | None:
        """The space of the compiler's public options, ``space="options"``; None when it has none."""
        ...

    def render(self, candidate: Candidate) -> ControlsFile:
        """The controls file for ``candidate``, one option a line, sorted; only knobs that begin with ``-``."""
        ...

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Check committed ``data`` of ``kind``: an options file against what ``knobs`` render to, byte for byte.

        Raises:
            StoreError: they differ, an option is not one a controls file may hold, or it takes no such kind.
        """
        ...

    def sources(self) -> Mapping[str, str]:
        """Rootdir-relative path → SHA-256 of every project file the compiler reads (system headers left out)."""
        ...

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """Compile into ``out_dir`` (made if absent); ``None`` builds the baseline.

        Raises:
            BuildError: the compiler refused, crashed (kind ``compile``) or was killed (kind ``timeout``).
        """
        ...

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        """The fragment that applies ``controls``, which lie at ``path``, for frameworks that compile for themselves."""
        ...

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The built kernel as a callable thing (Cc: ``ctypes.CDLL``); entries taken from it are added to ``used``."""
        ...
