"""Controls of NVIDIA's compilers: an opaque ACF, public options in an options file, or both.

A committed options file is untrusted, so only options that choose how code is generated are allowed, by name and by the
form of their value; some of them only if a project's maintainers name them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate, ControlsFile, Knobs
from pytest_compileiq.space import Space, choice, literal, range
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.macros import DEFINITION
from pytest_compileiq.toolchains.option_list import Option, OptionList
from pytest_compileiq.toolchains.triton.values import launch_params


@dataclass(frozen=True)
class CudaOptions(OptionList):
    """The public options of one of NVIDIA's compilers."""

    def space(self) -> Space:
        """The space of the options that decide how a kernel runs."""
        return Space.from_mapping({option.name: option.drawn for option in self.known})

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
_REGISTERS = Option("--maxrregcount=", r"\d{1,4}", range(24, 255, knockout_prob=0.5))


def _switch(name: str, knockout_prob: float) -> Option:
    return Option(name, "", literal("", knockout_prob=knockout_prob))


def _boolean(name: str, knockout_prob: float) -> Option:
    return Option(name, _BOOLEAN, choice(["true", "false"], knockout_prob=knockout_prob))


def _cache(name: str, values: Sequence[str], knockout_prob: float) -> Option:
    return Option(name, "|".join(values), choice(values, knockout_prob=knockout_prob))


_LOADS, _STORES = ("ca", "cg", "cs", "cv"), ("wb", "cg", "cs", "wt")
_PTXAS_NAMEABLE = (
    r"--(?:minnctapersm|device-function-maxrregcount)=\d{1,4}|--enable-func-clone-sc=(?:true|false)"
    r"|--Ofast-compile=(?:0|min|mid|max)|--return-at-end|--override-directive-values"
)
# Options that change results (fmad, fast maths) are included: the test's assertions judge them.
PTXAS = CudaOptions(
    "ptxas",
    (
        Option("-O", "[0-4]", choice([1, 2, 3], knockout_prob=0.6)),
        _REGISTERS,
        Option("--register-usage-level=", r"\d{1,2}", range(0, 10, knockout_prob=0.4)),
        _boolean("--allow-expensive-optimizations=", 0.6),
        _cache("--def-load-cache=", _LOADS, 0.6),
        _cache("--def-store-cache=", _STORES, 0.6),
        _cache("--force-load-cache=", _LOADS, 0.8),
        _cache("--force-store-cache=", _STORES, 0.8),
        _boolean("--fmad=", 0.8),
        _switch("--disable-optimizer-constants", 0.8),
        _switch("--dont-merge-basicblocks", 0.9),
        _switch("--optimize-float-atomics", 0.8),
    ),
    re.compile(_PTXAS_NAMEABLE),
)
_PTXAS_BY_NVCC = (
    "-O", "--register-usage-level=", "--allow-expensive-optimizations=", "--def-load-cache=", "--def-store-cache=",
    "--disable-optimizer-constants",
)  # fmt: skip
_NOT_BY_NVCC = "|".join(
    f"{option.name}(?:{option.form})" for option in PTXAS.known if option.name not in _PTXAS_BY_NVCC
)
NVCC = CudaOptions(
    "nvcc",
    (
        _switch("--use_fast_math", 0.7),
        _boolean("--ftz=", 0.7),
        _boolean("--prec-div=", 0.7),
        _boolean("--prec-sqrt=", 0.7),
        _boolean("--fmad=", 0.8),
        _switch("--extra-device-vectorization", 0.6),
        _switch("--restrict", 0.7),
        _REGISTERS,
        *(
            replace(option, name=f"-Xptxas={option.name}")
            for name in _PTXAS_BY_NVCC
            for option in PTXAS.known
            if option.name == name
        ),
    ),
    re.compile(f"-Xptxas=(?:{_NOT_BY_NVCC}|{_PTXAS_NAMEABLE})|{DEFINITION}"),
)
