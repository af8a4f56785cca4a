"""What a toolchain is: how one compiler builds a kernel with controls.

A marker names an unresolved toolchain (``Cc("k.c")``). ``Toolchain.resolve`` finds the compiler, resolves flags that
name the host, and returns a ``Builder``, with which everything else works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pytest_compileiq.model import (
    BuildResult,
    Candidate,
    Compiler,
    ControlClass,
    ControlsFile,
    Knobs,
    KnobValue,
    Licence,
)
from pytest_compileiq.rules.build_key import Inputs
from pytest_compileiq.space import Space

HostFlags = Mapping[str, tuple[str, ...]]
BaseSpace = Literal["default", "options"]  # the names of the spaces that every toolchain may have


@dataclass(frozen=True)
class Place:
    """The place of a marker: toolchain paths are relative to ``test_dir``, recorded paths to ``rootdir``.

    Attributes:
        host_flags: what each flag that names the host, such as ``-march=native``, means on the machine that runs what
            is built; None where that is this one.
    """

    test_dir: Path
    rootdir: Path
    host_flags: HostFlags | None = None


@runtime_checkable
class Toolchain(Protocol):
    """The marker's first argument. Equal arguments give equal toolchains."""

    def resolve(self, place: Place) -> Builder:
        """Find the compiler and fix everything that depends on this host.

        A tuning run also resolves in a copy of the project that holds only the files that ``sources`` names: a build
        there must give the same machine code.

        Raises:
            EnvironmentFault: the compiler is not installed; the message names it and how to get it.
            MarkerError: a source is missing or a flag cannot be used; the message names it.
        """
        ...


@runtime_checkable
class Counts(Protocol):
    """A ``Builder`` some of whose metrics need another program, such as a disassembler.

    They are counted only if an objective names one, since a search builds hundreds of times.
    """

    def count(self, built: BuildResult) -> BuildResult:
        """The build with those metrics too, of the whole and of each entry function, from the files beside it.

        Metrics that cannot be counted here are left out.
        """
        ...


@runtime_checkable
class BuildsTogether(Protocol):
    """A ``Builder`` whose builds have so much in common that a search makes that once."""

    def build_together(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """As ``build``, with the same machine code; its time says nothing, and is never a sample of ``compile_time``.

        What builds share lies beside ``out_dir``, or in a process that ends with this one.
        """
        ...


@runtime_checkable
class TriesOptions(Protocol):
    """A ``Builder`` that can ask its compiler which options it takes, before a search spends builds on them."""

    def refused_option(self, options: Sequence[str]) -> str | None:
        """The first of ``options`` that the compiler does not take, with the compiler's own words; None if none is.

        Each is tried by itself behind the baseline's flags, on an empty source.
        """
        ...


@runtime_checkable
class TakesKnobs(Protocol):
    """A ``Builder`` that says which knobs, of those not beginning with ``-``, its builds take.

    All others are for the test's body, as ``acf.params``: a knob that the body does not read changes nothing.
    """

    @property
    def knobs_taken(self) -> frozenset[str]: ...  # noqa: D102 - see above


@runtime_checkable
class HasBaselineParams(Protocol):
    """A ``Builder`` that knows what its kernel is built or run with where no control says otherwise.

    These values are in ``acf.params`` of both arms; a control of the same name takes the place of one.
    """

    @property
    def baseline_params(self) -> Mapping[str, KnobValue]: ...  # noqa: D102 - see above


@runtime_checkable
class ReadsByControls(Protocol):
    """A ``Builder`` whose compiler may read other files with controls: a macro decides what is included."""

    def sources_with(self, controls: ControlsFile) -> Mapping[str, str]:
        """As ``sources``, of the build with ``controls``."""
        ...

    def why_without_effect(self, *probes: Knobs) -> str | None:
        """Why a macro changes nothing in the sources; None if none is known to. A probe has a value for each macro."""
        ...


@runtime_checkable
class CallsWithData(Protocol):
    """A ``Builder`` whose kernel is called with data that the test's text does not hold."""

    @property
    def data(self) -> Mapping[str, str]:
        """Path → SHA-256 of what the data mean to the benchmark: with others, it is another benchmark."""
        ...


@runtime_checkable
class LoadsBeside(Protocol):
    """A ``Builder`` whose kernels are checked by what the baseline does, in both arms."""

    def load_beside(self, built: BuildResult, used: set[str], baseline: Callable[[], BuildResult]) -> Any:
        """As ``load``; ``baseline`` gives its build, which is made when it is asked for and is not there."""
        ...


@runtime_checkable
class OffersSpaces(Protocol):
    """A ``Builder`` that has spaces besides its default and its options, such as ``space="autotune"``."""

    @property
    def spaces(self) -> Mapping[str, Callable[[], Space]]:
        """Name → the space; calling it raises MarkerError where this kernel has none of the kind."""
        ...


@runtime_checkable
class ClassesOptions(Protocol):
    """A ``Builder`` whose compiler's options have classes, so that a test may ask for more of them by class."""

    @property
    def option_classes(self) -> Sequence[ControlClass]:
        """The classes that options of the compiler have behind this baseline, narrowest first."""
        ...

    def space_with(self, base: BaseSpace | None, classes: Collection[ControlClass]) -> Space:
        """The space called ``base``, or none, together with the options of ``classes``, each knob once."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """A ``Builder`` that has something to say about a build."""

    def remarks(self, built: BuildResult) -> Sequence[str]:
        """What whoever reads the result should know of how it came about, in sentences."""
        ...


@runtime_checkable
class TellsLicences(Protocol):
    """A ``Builder`` that can find out what its baseline and its sources already let the compiler change."""

    def licences(self) -> tuple[Licence, ...]:
        """What lets values differ between two builds whose controls keep every value; found out by compiling.

        It may take as long as a few builds. It holds for every candidate, however that inlines and unrolls.

        Raises:
            BuildError: the compiler refuses a source.
            EnvironmentFault: the compiler does not answer.
            StoreError: a source cannot be read.
        """
        ...


@runtime_checkable
class NamesHost(Protocol):
    """A ``Builder`` some of whose flags may name the host."""

    @property
    def host_flags(self) -> HostFlags:
        """What each of them means on the machine that runs what is built; empty where no flag does."""
        ...


class CacheableBuild(Protocol):
    """What a build depends on, so that another of which all that is the same need not be made."""

    def question(self) -> Mapping[str, Sequence[str]]:
        """Name → words: all that the build is asked with.

        Raises:
            NotModelled: it may depend on something that neither this nor ``inputs`` holds.
        """
        ...

    def inputs(self) -> tuple[Inputs, Inputs]:
        """The files that it reads, and the names that it looks for in vain: at all times, and once in a run.

        The latter are what is installed on the machine, such as the compiler itself.

        Raises:
            NotModelled: as of ``question``.
        """
        ...


@runtime_checkable
class ReadsByItself(Protocol):
    """A ``CacheableBuild`` whose question holds what a part of the build has read; the build reads it once more."""

    def is_of(self, built: BuildResult) -> bool:
        """Whether the build has read the same."""
        ...


@runtime_checkable
class TellsInputs(Protocol):
    """A ``Builder`` that knows all that its builds depend on, so that they may be taken from the build cache."""

    def cacheable(self, controls: ControlsFile | None) -> CacheableBuild:
        """What the build with ``controls`` depends on.

        Raises:
            NotModelled: it may depend on something that is not known.
        """
        ...


class Builder(Protocol):
    """One installed compiler on one kernel. Immutable; safe to use from several threads.

    Attributes:
        compiler: name, version, build and the resolved baseline command (paths relative to rootdir).
        architecture: the part of the target that names the processor, e.g. ``x86-64-v3``.
        target: architecture and compiler line, e.g. ``x86-64-v3-gcc12``.
        clock: the clock that times its kernels.
        acf_line: the compiler line whose ACFs it applies, e.g. ``ptxas13.3``; None if it takes no ACF.
        native: why this machine cannot run what it builds; None if it can.
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
        """The compiler's own space, checked against the installed compiler; None if it has none."""
        ...

    def option_space(self) -> Space | None:
        """The space of the compiler's public options, ``space="options"``; None if it has none."""
        ...

    def render(self, candidate: Candidate) -> ControlsFile:
        """The controls file of ``candidate``: knobs that begin with ``-``, one option per line, sorted."""
        ...

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Check committed ``data`` of ``kind``: an options file against what ``knobs`` render to, byte for byte.

        Raises:
            StoreError: they differ, an option may not stand in a controls file, or the compiler takes no such kind.
        """
        ...

    def sources(self) -> Mapping[str, str]:
        """Rootdir-relative path → SHA-256 of every project file that the compiler reads, system headers left out."""
        ...

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """Compile into ``out_dir``, which is created if missing; ``None`` builds the baseline.

        Raises:
            BuildError: the compiler refused, crashed (kind ``compile``) or was killed (kind ``timeout``).
        """
        ...

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        """The options that apply ``controls``, a file at ``path``, in frameworks that call the compiler themselves."""
        ...

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The built kernel as a callable object (Cc: ``ctypes.CDLL``); entries taken from it are added to ``used``."""
        ...


def licences_of(builder: Builder) -> tuple[Licence, ...]:
    """The licences of what ``builder`` builds; one that allows everything where its toolchain cannot tell.

    Raises:
        BuildError: the compiler refuses a source.
        EnvironmentFault: the compiler does not answer.
        StoreError: a source cannot be read.
    """
    if isinstance(builder, TellsLicences):
        return builder.licences()
    name = builder.compiler.name
    return (Licence("unknown", "opaque", name, "a toolchain that tells what its compiler may change"),)
