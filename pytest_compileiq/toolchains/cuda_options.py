"""Controls of NVIDIA's compilers: an opaque ACF, public options in an options file, or both.

A committed options file is untrusted, so only options that choose how code is generated are let through, by name and by
the form of their value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile, Knobs
from pytest_compileiq.space import Parameter, Space, choice, literal, range
from pytest_compileiq.toolchains.options_file import parse_rendered


@dataclass(frozen=True)
class CudaOptions:
    """The public options of one compiler.

    Attributes:
        compiler: its name, for messages.
        knobs: the default space of them; append-only, so that a committed artifact's knobs stay inside it.
        allowed: what any space may hold, as a pattern of whole options.
    """

    compiler: str
    knobs: Mapping[str, Parameter]
    allowed: re.Pattern[str]

    def space(self) -> Space:
        """The space of the options that decide how a kernel runs."""
        return Space.from_mapping(self.knobs)

    def render(self, candidate: Candidate) -> ControlsFile:
        """The controls of ``candidate``: its ACF when it has one, else an options file, one option a line, sorted.

        Beside an ACF the options lie in the metadata alone; ``text`` writes them out for the build.

        Raises:
            MarkerError: a knob does not give an option that a controls file may hold.
        """
        text = self.text(candidate.knobs)
        if candidate.blob is not None:
            return ControlsFile("blob", candidate.blob, dict(candidate.knobs))
        return ControlsFile("options", text.encode("ascii"), dict(candidate.knobs))

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        """Committed controls. Of an ACF the store has checked the digest, and its knobs are all that is left to check.

        Raises:
            StoreError: an options file is not what its knobs render to, or a knob is no option that may stand in one.
        """
        if kind == "options":
            return parse_rendered(data, knobs, self.render)
        try:
            return self.render(Candidate(knobs, data))
        except MarkerError as error:
            raise StoreError(f"recorded knobs cannot stand beside an ACF: {error}; run pytest --tune again") from error

    def text(self, knobs: Knobs) -> str:
        """The options file of the knobs that are options, ``""`` when there is none.

        Raises:
            MarkerError: one is not an option that may stand in a controls file.
        """
        options = []
        for name, value in knobs.items():
            if not name.startswith("-"):
                continue
            option = f"{name}{value}"
            if isinstance(value, bool) or not self.allowed.fullmatch(option):
                raise MarkerError(
                    f"knob {name!r} = {value!r}: {option[:200]!r} is no option of {self.compiler} that a controls file "
                    f"may hold; expected {', '.join(sorted(self.knobs))}, or put it in the toolchain's flags"
                )
            options.append(option)
        return "".join(f"{option}\n" for option in sorted(options))


_LOADS, _STORES = ("ca", "cg", "cs", "cv"), ("wb", "cg", "cs", "wt")
_PTXAS_ALLOWED = (
    r"-O[0-4]|--(?:maxrregcount|minnctapersm|register-usage-level|device-function-maxrregcount)=\d{1,4}"
    r"|--(?:allow-expensive-optimizations|fmad|enable-func-clone-sc)=(?:true|false)"
    r"|--(?:def|force)-(?:load|store)-cache=[a-z]{2}|--Ofast-compile=(?:0|min|mid|max)"
    r"|--(?:disable-optimizer-constants|dont-merge-basicblocks|optimize-float-atomics|return-at-end)"
    r"|--override-directive-values"
)
# What changes results (fmad, fast maths) is in: the test's assertions judge it.
PTXAS = CudaOptions(
    "ptxas",
    {
        "-O": choice([1, 2, 3], knockout_prob=0.6),
        "--maxrregcount=": range(24, 255, knockout_prob=0.5),
        "--register-usage-level=": range(0, 10, knockout_prob=0.4),
        "--allow-expensive-optimizations=": choice(["true", "false"], knockout_prob=0.6),
        "--def-load-cache=": choice(_LOADS, knockout_prob=0.6),
        "--def-store-cache=": choice(_STORES, knockout_prob=0.6),
        "--force-load-cache=": choice(_LOADS, knockout_prob=0.8),
        "--force-store-cache=": choice(_STORES, knockout_prob=0.8),
        "--fmad=": choice(["true", "false"], knockout_prob=0.8),
        "--disable-optimizer-constants": literal("", knockout_prob=0.8),
        "--dont-merge-basicblocks": literal("", knockout_prob=0.9),
        "--optimize-float-atomics": literal("", knockout_prob=0.8),
    },
    re.compile(_PTXAS_ALLOWED),
)
NVCC = CudaOptions(
    "nvcc",
    {
        "--use_fast_math": literal("", knockout_prob=0.7),
        "--ftz=": choice(["true", "false"], knockout_prob=0.7),
        "--prec-div=": choice(["true", "false"], knockout_prob=0.7),
        "--prec-sqrt=": choice(["true", "false"], knockout_prob=0.7),
        "--fmad=": choice(["true", "false"], knockout_prob=0.8),
        "--extra-device-vectorization": literal("", knockout_prob=0.6),
        "--restrict": literal("", knockout_prob=0.7),
        "--maxrregcount=": range(24, 255, knockout_prob=0.5),
        **{
            f"-Xptxas={name}": PTXAS.knobs[name]
            for name in ("-O", "--register-usage-level=", "--allow-expensive-optimizations=", "--def-load-cache=",
                         "--def-store-cache=", "--disable-optimizer-constants")
        },
    },
    re.compile(
        rf"-Xptxas=(?:{_PTXAS_ALLOWED})|--(?:use_fast_math|extra-device-vectorization|restrict)"
        r"|--(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|--maxrregcount=\d{1,4}"
    ),
)  # fmt: skip
