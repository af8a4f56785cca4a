"""What a toolchain is: how one compiler builds a kernel with controls.

A marker names an unresolved toolchain (``Cc("k.c")``). ``Toolchain.resolve`` finds the compiler, resolves flags that
name the host, and returns a ``Builder``, with which everything else works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from pytest_compileiq.model import (
    BuildResult,
    Candidate,
    Compiler,
    ControlClass,
    ControlsFile,
    Knobs,
    KnobValue,
    Licence,
    LoadChange,
)
from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.environment import deciding
from pytest_compileiq.toolchains.options import parse_controls, parse_named

if TYPE_CHECKING:
    from pytest_compileiq.toolchains.functions import FunctionSelection

HostFlags = Mapping[str, tuple[str, ...]]
BaseSpace = Literal["default", "options"]  # the names of the spaces that every toolchain may have


@dataclass(frozen=True)
class Place:
    """The place of a marker: toolchain paths are relative to ``test_dir``, recorded paths to ``rootdir``.

    Attributes:
        jobs: compilers that may run at once.
        host_flags: meaning of each flag that names the host, such as ``-march=native``, on the machine that runs the
            build; None where that is this one.
    """

    test_dir: Path
    rootdir: Path
    host_flags: HostFlags | None = field(default=None, hash=False)  # it may be a dict
    jobs: int = 1


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


class CacheableBuild(Struct, frozen=True):
    """Everything that a build depends on; an equal one need not be made. ``NotModelled`` where that is not known."""

    def question(self) -> Mapping[str, Sequence[str]]:
        """Name → words: all that the build is asked with."""
        raise NotImplementedError

    def inputs(self) -> tuple[Inputs, Inputs]:
        """Files that it reads and names that it looks for in vain: of the project, and of this machine's installation.

        The latter, such as the compiler itself, are looked at once in a run.
        """
        raise NotImplementedError

    def also_loaded(self, _built: BuildResult) -> Sequence[Path]:
        """The files beside its output that a test loads."""
        return ()

    def is_of(self, _built: BuildResult) -> bool:
        """Whether the build has read the files that a part of it had read for the question.

        Raises:
            NotModelled: it has read others besides.
        """
        return True


if TYPE_CHECKING:
    default = property
else:

    class default:  # noqa: N801 - used as property is
        """A property that a field of a dataclass may replace: the class itself has no such attribute."""

        def __init__(self, answer: Callable[[Any], Any]) -> None:
            self._answer = answer
            self.__doc__ = answer.__doc__

        def __set_name__(self, _owner: type, name: str) -> None:
            self._name = name

        def __get__(self, builder: Any, _owner: type | None = None) -> Any:
            if builder is None:
                raise AttributeError(self._name)
            return self._answer(builder)


class Builder(ABC):
    """One installed compiler on one kernel. Immutable; safe to use from several threads.

    Everything that is not abstract has an answer for compilers that have nothing of the kind.
    """

    @default
    def compiler(self) -> Compiler:
        """Name, version, build and the resolved baseline command (paths relative to rootdir)."""
        raise NotImplementedError

    @default
    def architecture(self) -> str:
        """The part of the target that names the processor, e.g. ``x86-64-v3``."""
        raise NotImplementedError

    @default
    def target(self) -> str:
        """Architecture and compiler line, e.g. ``x86-64-v3-gcc12``."""
        raise NotImplementedError

    @default
    def clock(self) -> str:
        """The clock that times its kernels: ``cpu``, or ``cuda`` for launches that return before their kernel ends."""
        raise NotImplementedError

    @default
    def acf_line(self) -> str | None:
        """The compiler line whose ACFs it applies, e.g. ``ptxas13.3``; None if it takes no ACF."""
        return None

    @default
    def native(self) -> str | None:
        """Why this machine cannot run its builds; None if it can."""
        return None

    # ── spaces ───────────────────────────────────────────────────────────────────────────────────────────────────

    def default_space(self) -> Space | None:
        """The compiler's own space, checked against the installed compiler; None if it has none."""
        return None

    def option_space(self) -> Space | None:
        """The space of the compiler's public options, ``space="options"``; None if it has none."""
        return None

    @default
    def spaces(self) -> Mapping[str, Callable[[], Space]]:
        """Further spaces, such as ``space="autotune"``: name → the space, or MarkerError where there is none."""
        return {}

    @default
    def option_classes(self) -> Sequence[ControlClass] | None:
        """The classes of options behind this baseline, narrowest first; None where options have no classes."""
        return None

    def space_with(self, base: BaseSpace | None, classes: Collection[ControlClass]) -> Space:
        """The space called ``base``, or none, together with the options of ``classes``, each knob once."""
        raise NotImplementedError

    def refused_option(self, _options: Sequence[str]) -> str | None:
        """The first option that the compiler refuses behind the baseline's flags, in its own words; None if none is."""
        return None

    def says(self, _option: str, _beside: Sequence[str] = ()) -> bool:
        """Whether an option is known to change nothing behind the baseline's flags and the options ``beside``."""
        return False

    @default
    def knobs_taken(self) -> frozenset[str] | None:
        """Knobs, of those not beginning with ``-``, that builds take; None where that is not known.

        All others are for the test's body, as ``acf.params``: a knob that the body does not read changes nothing.
        """
        return None

    @default
    def baseline_params(self) -> Mapping[str, KnobValue]:
        """Values of knobs that no control sets: in ``acf.params`` of both arms."""
        return {}

    # ── controls ─────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def render(self, candidate: Candidate) -> ControlsFile:
        """The controls file of ``candidate``: knobs that begin with ``-``, one option per line, sorted.

        Raises:
            MarkerError: a knob may not stand in a controls file, or the compiler takes no ACF.
        """

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Check committed ``data`` of ``kind``: an options file against what ``knobs`` render to, byte for byte.

        Raises:
            StoreError: they differ, an option may not stand in a controls file, or the compiler takes no such kind.
        """
        if self.acf_line is None:
            return parse_named(kind, data, knobs, self.render, self.compiler.name)
        return parse_controls(kind, data, knobs, self.render)

    @abstractmethod
    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        """The options that apply ``controls``, a file at ``path``, in frameworks that call the compiler themselves."""

    # ── what builds read ─────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def sources(self) -> Mapping[str, str]:
        """Path → SHA-256 of every file that the compiler reads, but headers of the system and of Python's packages.

        Paths are relative to rootdir; a header outside it is named as the compiler names it.

        Raises:
            BuildError: the compiler refuses a source, or a file cannot be read.
        """

    def sources_with(self, _controls: ControlsFile) -> Mapping[str, str]:
        """As ``sources``, of the build with these controls: a macro may decide about an inclusion."""
        return self.sources()

    def why_without_effect(self, *_probes: Knobs) -> str | None:
        """Why a macro changes nothing in the sources; None if none is known to. A probe has a value for each macro."""
        return None

    @default
    def data(self) -> Mapping[str, str]:
        """Data of the kernel's calls that the test's text does not hold: path → SHA-256 of their meaning."""
        return {}

    @default
    def environment(self) -> Mapping[str, str]:
        """Name → value of the environment variables that are set here and decide about machine code."""
        return deciding(self.compiler.name)

    @default
    def host_flags(self) -> HostFlags:
        """Meaning of flags that name the host on the machine that runs the build; empty where no flag does."""
        return {}

    @default
    def functions(self) -> FunctionSelection | None:
        """The toolchain's ``functions=`` and ``neighbours=``; None where it takes no such arguments."""
        return None

    def licences(self) -> tuple[Licence, ...]:
        """Reasons for values to differ between two builds whose controls keep every value; found by compiling.

        It may take as long as a few builds, holds for every candidate, and allows everything where nobody can tell.

        Raises:
            BuildError: the compiler refuses a source.
            EnvironmentFault: the compiler does not answer.
            StoreError: a source cannot be read.
        """
        name = self.compiler.name
        return (Licence("unknown", "opaque", name, "a toolchain that tells what its compiler may change"),)

    @default
    def is_modelled(self) -> bool:
        """Whether ``cacheable`` knows the inputs of builds, if not of each of them."""
        return False

    def cacheable(self, _controls: ControlsFile | None) -> CacheableBuild:
        """Everything that the build with these controls depends on, for the build cache.

        Raises:
            NotModelled: it may depend on something that is not known.
        """
        raise NotModelled(f"builds by {self.compiler.name} are not modelled")

    # ── builds ───────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """Compile into ``out_dir``, which is created if missing; ``None`` builds the baseline.

        Raises:
            BuildError: the compiler refused, crashed (kind ``compile``) or was killed (kind ``timeout``).
        """

    def build_together(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        """As ``build``, with the same machine code, and common parts of a search's builds made once.

        These lie beside ``out_dir``, or in a process that ends with this one. The time is never a sample of
        ``compile_time``.
        """
        return self.build(controls, out_dir, timeout_s=timeout_s)

    @default
    def counts(self) -> bool:
        """Whether ``count`` adds metrics to those of ``build``."""
        return False

    def count(self, built: BuildResult) -> BuildResult:
        """The build with metrics that another program finds, such as a disassembler; without those it cannot count.

        It is called only if an objective names one, since a search builds hundreds of times.
        """
        return built

    @default
    def versions(self) -> Sequence[Builder]:
        """This builder, and those that stand in for it where its builds cannot be loaded, by ``BuildError.refused``."""
        return (self,)

    @default
    def loaded_with(self) -> Sequence[str]:
        """Words of a test's own command that only make its code loadable."""
        return ()

    def changed(self, _timeout_s: float) -> LoadChange | None:
        """What the recorded command has beside production's, found by as many builds as there are arms."""
        return None

    def remarks(self, _built: BuildResult) -> Sequence[str]:
        """Notes for the report about the build, in sentences."""
        return ()

    @abstractmethod
    def load(self, built: BuildResult, used: set[str]) -> Any:
        """The built kernel as a callable object (Cc: ``ctypes.CDLL``); entries taken from it are added to ``used``."""

    def load_beside(self, built: BuildResult, used: set[str], _baseline: Callable[[], BuildResult]) -> Any:
        """As ``load``; the baseline's build, made when it is asked for, is a reference that a kernel may need."""
        return self.load(built, used)
