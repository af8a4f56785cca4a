"""Controls of NVIDIA's compilers: an opaque ACF, public options in an options file, or both.

A committed options file is untrusted, so only options that choose how code is generated are allowed, by name and by the
form of their value; some of them only if a project's maintainers name them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import CONTROL_CLASSES, Candidate, ControlClass, ControlsFile, Knobs
from pytest_compileiq.space import Space, choice, literal, range
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.macros import DEFINITION
from pytest_compileiq.toolchains.nvidia.baseline import Baseline
from pytest_compileiq.toolchains.options import Option, OptionList, Unlisted
from pytest_compileiq.toolchains.triton.values import launch_params


class CudaOptions(OptionList, frozen=True):
    """The public options of one of NVIDIA's compilers."""

    def space(self, baseline: Baseline, classes: Collection[ControlClass]) -> Space:
        """The space of the options that have one of ``classes`` and take nothing of the baseline back."""
        knobs = {
            option.name: option.drawn if left == list(option.drawn.values) else choice(left, option.drawn.knockout_prob)
            for option in self.known
            if option.control_class in classes and (left := baseline.values_left(option.name, option.drawn.values))
        }
        return Space.from_mapping(knobs) if knobs else Space(())

    def classes(self, baseline: Baseline) -> tuple[ControlClass, ...]:
        """The classes that options have behind ``baseline``, narrowest first."""
        return tuple(each for each in CONTROL_CLASSES if self.space(baseline, [each]).genes)

    def render(self, candidate: Candidate) -> ControlsFile:
        """The controls of ``candidate``: its ACF if it has one, else an options file, one option per line, sorted.

        Options beside an ACF are in the metadata alone; ``text`` writes them out for the build.

        Raises:
            MarkerError: a knob is not an option that a controls file may hold.
        """
        text = self.text(candidate.knobs)
        if candidate.blob is not None:
            return ControlsFile("blob", candidate.blob, dict(candidate.knobs))
        return ControlsFile("options", text.encode("ascii"), dict(candidate.knobs))

    def render_launch(self, candidate: Candidate) -> ControlsFile:
        """As ``render``, but the options file also holds the other knobs, ``name=value``, which a launch takes.

        Raises:
            MarkerError: a knob is not an option that a controls file may hold, or no value that a launch takes.
        """
        options = self.text(candidate.knobs).splitlines()
        launch_params(candidate.knobs)
        if candidate.blob is not None:
            return ControlsFile("blob", candidate.blob, dict(candidate.knobs))
        own = [f"{name}={value}" for name, value in candidate.knobs.items() if not name.startswith("-")]
        data = "".join(f"{line}\n" for line in sorted([*options, *own])).encode()
        return ControlsFile("options", data, dict(candidate.knobs))

    def text(self, knobs: Knobs) -> str:
        """The options file of the knobs that are options; empty if none is.

        Raises:
            MarkerError: an option may not stand in a controls file.
        """
        options = []
        for name, value in knobs.items():
            if not name.startswith("-"):
                continue
            option = f"{name}{value}"
            if isinstance(value, bool) or not self.may_hold(option):
                names = sorted(listed.name for listed in self.known)
                meant = did_you_mean(name, names) if name not in names else ""
                raise MarkerError(
                    f"knob {name!r} = {value!r}: {option[:200]!r} is no option of {self.compiler} that a controls file "
                    f"may hold{meant}: expected {', '.join(names)}, or put it in the toolchain's flags"
                )
            options.append(option)
        return "".join(f"{option}\n" for option in sorted(options))


_BOOLEAN = "true|false"
_PTXAS = "CUDA Compiler Driver NVCC, Ptxas Options"
_NVCC = "CUDA Compiler Driver NVCC, Generic Tool Options"
_GPU = "CUDA Compiler Driver NVCC, Options for Steering GPU Code Generation"
_CACHE = "PTX ISA, Cache Operators: they are performance hints on weak loads and stores"
_FORCED = "PTX ISA, Cache Operators, replaced wherever the source gives its own"
_REGISTERS = Option(
    "--maxrregcount=", r"\d{1,4}", range(24, 255, knockout_prob=0.5), "value-safe", f"{_GPU}: --maxrregcount"
)


def _switch(section: str, name: str, control_class: ControlClass, knockout_prob: float) -> Option:
    return Option(name, "", literal("", knockout_prob=knockout_prob), control_class, f"{section}: {name}")


def _boolean(section: str, name: str, control_class: ControlClass, knockout_prob: float) -> Option:
    drawn = choice(["true", "false"], knockout_prob=knockout_prob)
    return Option(name, _BOOLEAN, drawn, control_class, f"{section}: {name.removesuffix('=')}")


def _cache(name: str, values: Sequence[str], control_class: ControlClass, source: str, knockout_prob: float) -> Option:
    drawn = choice(values, knockout_prob=knockout_prob)
    return Option(name, "|".join(values), drawn, control_class, f"{source}: {name.removesuffix('=')}")


_LOADS, _STORES = ("ca", "cg", "cs", "cv"), ("wb", "cg", "cs", "wt")
_PTXAS_NAMEABLE = (
    r"--(?:minnctapersm|device-function-maxrregcount)=\d{1,4}|--enable-func-clone-sc=(?:true|false)"
    r"|--Ofast-compile=(?:0|min|mid|max)|--return-at-end|--override-directive-values"
)
PTXAS = CudaOptions(
    "ptxas",
    (
        Option("-O", "[0-4]", choice([1, 2, 3], knockout_prob=0.6), "value-safe", f"{_PTXAS}: --opt-level"),
        _REGISTERS,
        Option(
            "--register-usage-level=",
            r"\d{1,2}",
            range(0, 10, knockout_prob=0.4),
            "value-safe",
            f"{_PTXAS}: --register-usage-level",
        ),
        _boolean(_PTXAS, "--allow-expensive-optimizations=", "value-safe", 0.6),
        _cache("--def-load-cache=", _LOADS, "value-safe", _CACHE, 0.6),
        _cache("--def-store-cache=", _STORES, "value-safe", _CACHE, 0.6),
        _cache("--force-load-cache=", _LOADS, "relaxed-semantics", _FORCED, 0.8),
        _cache("--force-store-cache=", _STORES, "relaxed-semantics", _FORCED, 0.8),
        _boolean(_PTXAS, "--fmad=", "contraction", 0.8),
        _switch(_PTXAS, "--disable-optimizer-constants", "value-safe", 0.8),
        _switch(_PTXAS, "--dont-merge-basicblocks", "value-safe", 0.9),
        _switch(_PTXAS, "--optimize-float-atomics", "relaxed-maths", 0.8),
    ),
    re.compile(_PTXAS_NAMEABLE),
    (Unlisted(_PTXAS_NAMEABLE, "value-safe", _PTXAS),),
)
_PTXAS_BY_NVCC = (
    "-O", "--register-usage-level=", "--allow-expensive-optimizations=", "--def-load-cache=", "--def-store-cache=",
    "--disable-optimizer-constants",
)  # fmt: skip
_NOT_BY_NVCC = [option for option in PTXAS.known if option.name not in _PTXAS_BY_NVCC]
_NAMEABLE_BY_NVCC = "|".join((*(f"{option.name}(?:{option.form})" for option in _NOT_BY_NVCC), _PTXAS_NAMEABLE))
NVCC = CudaOptions(
    "nvcc",
    (
        _switch(_GPU, "--use_fast_math", "relaxed-maths", 0.7),
        _boolean(_GPU, "--ftz=", "relaxed-maths", 0.7),
        _boolean(_GPU, "--prec-div=", "relaxed-maths", 0.7),
        _boolean(_GPU, "--prec-sqrt=", "relaxed-maths", 0.7),
        _boolean(_GPU, "--fmad=", "contraction", 0.8),
        _switch(_GPU, "--extra-device-vectorization", "value-safe", 0.6),
        _switch(_NVCC, "--restrict", "relaxed-semantics", 0.7),
        _REGISTERS,
        *(
            replace(option, name=f"-Xptxas={option.name}")
            for name in _PTXAS_BY_NVCC
            for option in PTXAS.known
            if option.name == name
        ),
    ),
    re.compile(f"-Xptxas=(?:{_NAMEABLE_BY_NVCC})|{DEFINITION}"),
    (
        *(Unlisted(f"-Xptxas={option.name}(?:{option.form})", option.control_class, option.source)
          for option in _NOT_BY_NVCC),
        *(replace(each, form=f"-Xptxas=(?:{each.form})") for each in PTXAS.unlisted),
    ),
)  # fmt: skip
