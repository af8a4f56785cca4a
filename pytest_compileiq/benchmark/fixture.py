"""The ``acf`` fixture: what a test body holds while it runs as one arm on one workload."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_compileiq.benchmark.builds import Builds
from pytest_compileiq.benchmark.compared import ComparedOutput, Outputs
from pytest_compileiq.errors import BodyError, CompileIQError, EnvironmentFault, NoDevice, fault_of
from pytest_compileiq.model import (
    L2,
    LARGEST_NUMBER,
    TIMED_OBJECTIVES,
    Arm,
    BuildResult,
    ControlsFile,
    KnobValue,
    Launch,
    Workload,
)
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.files import replace
from pytest_compileiq.timing.checked import MeasureArguments, asked_for, expect_callables
from pytest_compileiq.toolchains.macros import params_in

if TYPE_CHECKING:
    import numpy as np

    from pytest_compileiq.timing.outputs import WrittenOutput

Measurer = Callable[["Acf", Callable[[], object]], object]
"""What ``acf.measure`` does with a callable: call it once, or sample it against the other arm; gives its last value."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Build:
    """What ``acf.build()`` made.

    Attributes:
        metrics: exact metrics: ``code_bytes``, ``registers``, …; ``instructions`` of C code when an objective names
            it.
    """

    path: Path  # the library or executable
    metrics: Mapping[str, int]
    log: str  # what the compiler printed
    _load: Callable[[], Any]

    def load(self) -> Any:
        """The kernel, loaded: a ``ctypes.CDLL`` for a C library, the path itself for an executable."""
        __tracebackhide__ = True
        return _for_the_test(self._load)


class NoParameter(BodyError, KeyError):
    """A body read a parameter that this arm does not have; the message says what it has."""

    __str__ = BodyError.__str__  # a KeyError would quote the sentence


class Parameters(dict[str, KnobValue]):
    """A dict that notes in ``read`` which of its keys a body asked for, whether they are there or not."""

    def __init__(self, values: Mapping[str, KnobValue], read: set[str]) -> None:
        super().__init__(values)
        self._read = read

    def __getitem__(self, name: str) -> KnobValue:
        self._read.add(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> KnobValue:
        known = sorted(super().keys())
        held = f"it has {', '.join(known)}" if known else "it is empty"
        meant = did_you_mean(str(name), known)
        raise NoParameter(f"acf.params has no {name!r}{meant}: {held}: write acf.params.get({name!r}, default)")

    def __contains__(self, name: object) -> bool:
        self._read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self._read.update(super().keys())  # who asks for all of them may use all of them
        return super().__iter__()

    def keys(self) -> Any:
        self._read.update(super().keys())
        return super().keys()

    def values(self) -> Any:
        self._read.update(super().keys())
        return super().values()

    def items(self) -> Any:
        self._read.update(super().keys())
        return super().items()


class Acf:
    """One arm of a tuned benchmark on one workload."""

    def __init__(
        self,
        builds: Builds,
        controls: ControlsFile | None,
        workload: Workload,
        *,
        arm: Arm,
        measurer: Measurer,
        outputs: Outputs,
        draw: int = 0,
    ) -> None:
        self._builds = builds
        self._controls = controls
        self._measurer = measurer
        self._outputs = outputs
        self._draw = draw
        self._rng: np.random.Generator | None = None
        self.arm: Arm = arm
        self.workload = workload
        self.measured = 0
        self.recorded: dict[str, float] = {}
        self.used: set[str] = set()
        self.read: set[str] = set()
        self.l2: L2 = "flush"
        self.launch: Launch | None = None
        self.asked = MeasureArguments()
        self.written: tuple[WrittenOutput, ...] = ()
        self.not_run: str | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether this arm is the build with no controls."""
        return self._controls is None

    @property
    def rng(self) -> np.random.Generator:
        """The body's random source, new in each run of the body, so that both arms draw the same numbers.

        Its seed is the same in every search, proof and normal run. The stress of a winner, and ``--tune-draw=SEED``,
        give it others.
        """
        if self._rng is None:
            import numpy as np

            self._rng = np.random.Generator(np.random.PCG64(self._draw))
        return self._rng

    @property
    def drew(self) -> bool:
        """Whether the body has read ``rng``."""
        return self._rng is not None

    @property
    def params(self) -> Mapping[str, KnobValue]:
        """The knobs that are no compiler options, and the macros by their names, as this arm has them.

        The baseline has what its toolchain says: the macros that it defines, the defaults of ``Params``.
        """
        return Parameters(params_in(self._builds.builder, self._controls.knobs if self._controls else {}), self.read)

    @property
    def path(self) -> Path | None:
        """The controls file at a content-addressed path in the user cache directory; None in the baseline."""
        __tracebackhide__ = True
        controls = self._controls
        return None if controls is None else _for_the_test(lambda: cached_controls(controls))

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line fragment that applies the controls; empty in the baseline."""
        __tracebackhide__ = True
        controls, builder = self._controls, self._builds.builder
        return () if controls is None else _for_the_test(lambda: builder.options(controls, cached_controls(controls)))

    def build(self) -> Build:
        """Compile this arm's kernel, or take what this run has already compiled."""
        __tracebackhide__ = True
        built = _for_the_test(lambda: self._builds.get(self._controls))
        return Build(built.path, built.metrics, built.log, lambda: self._load(built))

    def measure(
        self,
        call: Callable[[], object],
        *,
        outputs: Sequence[Any] = (),
        check: Callable[[], object] | None = None,
        reset: Callable[[], object] | None = None,
        l2: L2 = "flush",
        graph: bool | None = None,
    ) -> Any:
        """Hand over the callable whose runtime is the objective; returns what its last call returned.

        Before it returns, ``call`` has run once more in this arm, on ``outputs`` that were overwritten, and a GPU has
        finished it: assert on the output after ``measure``, so that what was timed is what is checked.

        Args:
            call: does the work, and nothing else.
            outputs: the arrays that ``call`` writes. Between the samples they are overwritten, and looked at: each call
                has to write the same bytes again. What ``call`` leaves alone is left alone.
            check: takes no argument, asserts on the output, and is asked between the samples instead.
            reset: takes no argument, and restores what ``call`` works on, such as the input of a kernel that works in
                place. It runs before each call and is not timed, so that a sample is of one call. On a GPU ``call`` is
                also made without it, to see how it launches.
            l2: whether each call of a GPU kernel finds the L2 cache cold (``"flush"``) or as the call before left it.
            graph: whether the calls of a GPU kernel are captured into a CUDA graph; by default wherever the call does
                nothing but launch, the same each time, by the kernels of ``load()``.

        Raises:
            BodyError: an argument is not what is expected, or this body has measured or recorded already.
        """
        expect_callables(call, check=check, reset=reset)
        if l2 not in ("flush", "warm") or not isinstance(graph, bool | None):
            raise BodyError(
                f"acf.measure(l2={l2!r}, graph={graph!r}): expected l2='flush' or 'warm' and a bool or None"
            )
        if l2 == "warm" and reset is not None:
            raise BodyError("acf.measure(l2='warm', reset=…): reset= would run between the calls that are to be warm")
        self.measured += 1
        self.l2, self.launch = l2, None if graph is None else "graph" if graph else "eager"
        if self.measured > 1 or self.recorded:
            raise BodyError(
                "acf.measure was called twice, or after acf.record: a body has one objective, measured once"
            )
        self.asked = asked_for(outputs, check, reset)
        return self._measurer(self, call)

    def record(self, **metrics: float) -> None:
        """Give metrics that the body took itself: ``acf.record(runtime=seconds)``, ``acf.record(score=-1.52)``.

        A score is any finite number of at most 1e30, zero and negative ones too; a time or an energy is positive.

        Raises:
            BodyError: nothing given, a value that is no such number, or ``measure`` was called too.
        """
        if not metrics:
            raise BodyError("acf.record() needs a metric, e.g. acf.record(runtime=seconds) or acf.record(score=0.93)")
        for name, value in metrics.items():
            _check_recorded(name, value)
        if self.measured:
            raise BodyError("acf.record was called after acf.measure: a body does one or the other")
        self.recorded |= {name: float(value) for name, value in metrics.items()}

    def compare(self, name: str, array: Any, *, rtol: float = 0, atol: float = 0, reference: Any = None) -> None:
        """Check the tuned arm's output against the baseline's, bit for bit unless a tolerance is given.

        With a ``reference``, such as the same result in a wider type, the arms are not held against each other: each is
        held against the reference, within the tolerance where one is given, and the stress of a winner says whether it
        is less accurate than the baseline.

        Raises:
            BodyError: ``name`` is not a string, ``array`` holds anything but numbers, or ``reference`` has another
                shape.
            OutputMismatch: the arms differ; an ``AssertionError``.
            OffReference: the output is off its reference; an ``AssertionError``.
        """
        output = ComparedOutput.of(name, array, rtol=rtol, atol=atol, reference=reference)
        self._outputs.take(name, output, is_baseline=self.is_baseline)

    def _load(self, built: BuildResult) -> Any:
        builder = self._builds.builder
        if (reason := builder.native) is not None:
            raise NoDevice(reason)
        return builder.load_beside(built, self.used, lambda: self._builds.get(None))


def _check_recorded(name: str, value: Any) -> None:
    if name in ("outputs", "check", "reset") and not isinstance(value, numbers.Real):
        raise BodyError(f"acf.record({name}=…): {name}= is for acf.measure; a body that times itself checks itself")
    least = "a positive" if name in TIMED_OBJECTIVES else "a"
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not abs(value) <= LARGEST_NUMBER or (name in TIMED_OBJECTIVES and value <= 0):
        raise BodyError(f"acf.record({name}={value!r}): expected {least} finite number of at most {LARGEST_NUMBER:g}")


class Unusable:
    """What pytest hands to fixtures that request ``acf``: it works in the test's own body only."""

    def __getattr__(self, name: str) -> Any:
        raise BodyError(
            f"acf.{name} was used outside the test's body (in a fixture): "
            "a fixture lives for many builds, so use acf in the body"
        )


def _for_the_test(call: Callable[[], Answer]) -> Answer:
    """What ``call`` gives; pytest shows an error of it at the test's line, whose author can do something about it.

    A full disk, a limit or a read-only file system blames neither the body nor the controls.
    """
    __tracebackhide__ = True
    try:
        return call()
    except OSError as error:
        raise EnvironmentFault(fault_of(error)) from error
    except CompileIQError as error:
        raise error.with_traceback(None) from None


def cached_controls(controls: ControlsFile) -> Path:
    """Write ``controls`` under its digest in the user cache directory, once, and give the path."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-compileiq" / "acf"
    path = home / f"{controls.sha256}.acf"
    if not path.is_file() or path.read_bytes() != controls.data:
        home.mkdir(parents=True, exist_ok=True)
        replace(path, controls.data)
    return path
