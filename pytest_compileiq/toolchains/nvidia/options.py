"""Controls of NVIDIA's compilers: an opaque ACF, public options in an options file, or both.

A committed options file is untrusted, so only options that choose how code is generated are allowed, by name and by the
form of their value; some of them only if a project's maintainers name them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import CONTROL_CLASSES, Candidate, ControlClass, ControlsFile, Knobs, KnobValue
from pytest_compileiq.space import Space, choice, literal, range
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.flags import rooted
from pytest_compileiq.toolchains.macros import DEFINITION
from pytest_compileiq.toolchains.options import Option, OptionList, Unlisted, options_file
from pytest_compileiq.toolchains.triton.arguments import launch_params

# The plugin gives these itself: outputs, the stage, architectures.
OURS = re.compile(
    r"-o|--output-file|-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code|-cubin|--cubin|-ptx|--ptx|-fatbin|"
    r"--fatbin|-shared|--shared|-lib|--lib|-c|--compile|-dc|-dw|-dlink|-E|-M.*|-keep.*|--keep.*|-optf|--options-file|"
    r"-?-apply-controls|-odir|--output-directory|-run|--run|-dryrun|--dryrun|-v|--verbose|-h|--help|-V|--version"
)
GCC_NAMES = {
    "-I": "-I", "--include-path": "-I", "-isystem": "-isystem", "--system-include": "-isystem", "-include": "-include",
    "--pre-include": "-include",
}  # fmt: skip
_TAKE_A_WORD = frozenset(
    ("Xptxas", "ptxas-options", "Xcompiler", "compiler-options", "Xlinker", "linker-options", "std", "maxrregcount",
     "O", "ftz", "prec-div", "prec-sqrt", "fmad", "diag-suppress", "t", "threads", "o", "output-file", "MF", "MT",
     "odir", "output-directory", "x", "Werror", "ccbin", "compiler-bindir", "arch", "gpu-architecture", "code",
     "gpu-code", "gencode", "generate-code")
)  # fmt: skip
_JOINED = ("-D", "-U", "-L", "-l")  # with no sign between option and value
_OF_ANOTHER = re.compile(r"-X\w+=|--\w+-options=")  # words of another program, such as -v in -Xptxas -v


def split_nvcc_flags(flags: object, place: Place) -> tuple[str, ...]:
    """The baseline's flags, with paths relative to rootdir; MarkerError for one that the plugin sets itself."""
    if not isinstance(flags, str):
        raise MarkerError(f"flags={flags!r}: expected one string, as in flags='-O3 -lineinfo'")
    try:
        words = tuple(map(as_nvcc_takes_it, rooted(list(respelled(shlex.split(flags), GCC_NAMES)), place)))
    except ValueError as error:
        raise MarkerError(f"flags={flags!r}: {error}") from error
    own = (word for word in in_one_word(words) if not _OF_ANOTHER.match(word))
    if taken := next((word for word in own if OURS.fullmatch(word.partition("=")[0])), None):
        shown = taken if taken in words else taken.partition("=")[0]
        raise MarkerError(f"flags={flags!r}: {shown!r} cannot be used: the plugin gives it, see arch= and output=")
    if any("apply-controls" in word for word in words):
        raise MarkerError(f"flags={flags!r}: the baseline is built without controls; the search sets the ACF")
    return words


def in_one_word(words: Iterable[str]) -> Iterator[str]:
    """``words``, each option whose value is the next word joined with it."""
    left = iter(words)
    for word in left:
        if word in _JOINED:
            yield f"{word}{next(left, '')}"
        elif word.startswith("-") and word.lstrip("-") in _TAKE_A_WORD:
            yield f"{word}={next(left, '')}"
        else:
            yield word


def as_one_definition(word: str) -> str:
    """``-DLIST=1,2`` as nvcc takes it, which splits it at commas outside quotes and leaves backslashes out."""
    if "\\" in word:
        raise MarkerError(f"Nvcc(defines=…): {word[2:]}: nvcc leaves backslashes out: define the macro in a header")
    return re.sub(r'"[^"]*"|,', lambda part: r"\," if part[0] == "," else part[0], word)


def respelled(words: Iterable[str], names: Mapping[str, str]) -> Iterator[str]:
    """``words`` with new ``names`` of options, joined with their values: ``--system-include=d`` is ``-isystemd``."""
    left = iter(words)
    for word in left:
        name, sign, value = word.partition("=")
        yield f"{names[name]}{value if sign else next(left, '')}" if name in names else word


def as_nvcc_takes_it(word: str) -> str:
    """``word``, an option joined with its value, with a sign between them where nvcc demands it."""
    return re.sub(r"^(-isystem|-include|-x)(?=[^=-])", r"\1=", word)


_LEVEL = "ptxas -O"
_HIGHEST_BY_DEFAULT = "3"  # of ptxas
_LONG_NAMES = {
    "dlcm": "def-load-cache",
    "dscm": "def-store-cache",
    "flcm": "force-load-cache",
    "fscm": "force-store-cache",
    "regUsageLevel": "register-usage-level",
    "opt-fp-atomics": "optimize-float-atomics",
    "no-bb-merge": "dont-merge-basicblocks",
    "disable-optimizer-consts": "disable-optimizer-constants",
    "opt-level": "O",
}
_SWITCHES = frozenset(
    ("use_fast_math", "extra-device-vectorization", "restrict", "disable-optimizer-constants", "dont-merge-basicblocks",
     "optimize-float-atomics")
)  # fmt: skip
_IMPLIED = {"use_fast_math": {"ftz": "true", "prec-div": "false", "prec-sqrt": "false", "fmad": "true"}}


class BaselineOptions:
    """The settings of the words of a ``compiler``, ``ptxas`` or ``nvcc``; options of an nvcc for ptxas are ptxas's."""

    def __init__(self, compiler: str, words: Sequence[str]) -> None:
        self._compiler = compiler
        self._said = {_LEVEL: _HIGHEST_BY_DEFAULT, **self._settings(words)}

    def undone_by(self, option: str) -> bool:
        """Whether ``option`` takes back what the baseline says; of levels, whether it is a lower one."""
        meant = self._settings([option])
        level = meant.pop(_LEVEL, None)
        return (level is not None and level < self._said[_LEVEL]) or any(
            self._said.get(name, value) != value for name, value in meant.items()
        )

    def says(self, option: str) -> bool:
        """Whether ``option`` changes nothing, since the baseline says it already."""
        meant = self._settings([option]).items()
        return bool(meant) and meant <= self._said.items()

    def values_left(self, name: str, values: Sequence[KnobValue]) -> list[KnobValue]:
        """The option's ``values`` that may be drawn; none where all of them change nothing."""
        left = [value for value in values if not self.undone_by(f"{name}{value}")]
        return [] if all(self.says(f"{name}{value}") for value in left) else left

    def _settings(self, words: Sequence[str]) -> dict[str, str]:
        settings: dict[str, str] = {}
        for name, value in _pairs(words, "host -O" if self._compiler == "nvcc" else _LEVEL):
            settings |= {**_IMPLIED.get(name, {}), name: value}
        return settings


def _pairs(words: Sequence[str], level: str) -> Iterator[tuple[str, str]]:
    """Each option's long name and its value; the level's name is ``level``."""
    for word in in_one_word(words):
        if joined := re.fullmatch(r"-O(\w)", word):
            yield level, joined[1]
            continue
        given, equals, value = word.lstrip("-").partition("=")
        name = _LONG_NAMES.get(given, given)
        if not word.startswith("-") or not name:
            continue
        if name in _SWITCHES:
            yield name, "yes"
        elif name in ("Xptxas", "ptxas-options"):
            yield from _pairs(value.split(","), _LEVEL)
        elif equals:
            yield (level if name == "O" else name), value


class CudaOptions(OptionList, frozen=True):
    """The public options of one of NVIDIA's compilers."""

    def space(self, baseline: BaselineOptions, classes: Collection[ControlClass]) -> Space:
        """The space of the options that have one of ``classes`` and take nothing of the baseline back."""
        knobs = {
            option.name: option.drawn if left == list(option.drawn.values) else choice(left, option.drawn.knockout_prob)
            for option in self.known
            if option.control_class in classes and (left := baseline.values_left(option.name, option.drawn.values))
        }
        return Space.from_mapping(knobs) if knobs else Space(())

    def classes(self, baseline: BaselineOptions) -> tuple[ControlClass, ...]:
        """The classes that options have behind ``baseline``, narrowest first."""
        return tuple(each for each in CONTROL_CLASSES if self.space(baseline, [each]).genes)

    def render(self, candidate: Candidate) -> ControlsFile:
        """The ACF of ``candidate``, else an options file, one option per line, sorted; raises as ``words``.

        Options beside an ACF are in the metadata alone; ``words`` gives them out for the build.
        """
        return self._file(candidate, self.words(candidate.knobs))

    def render_launch(self, candidate: Candidate) -> ControlsFile:
        """As ``render``, but the options file also holds the other knobs, ``name=value``, which a launch takes."""
        options = self.words(candidate.knobs)
        launch_params(candidate.knobs)  # refuses what no launch takes
        own = (f"{name}={value}" for name, value in candidate.knobs.items() if not name.startswith("-"))
        return self._file(candidate, [*options, *own])

    def _file(self, candidate: Candidate, lines: Sequence[str]) -> ControlsFile:
        if candidate.blob is None:
            return options_file(lines, candidate.knobs)
        return ControlsFile("blob", candidate.blob, dict(candidate.knobs))

    def words(self, knobs: Knobs) -> list[str]:
        """The knobs that are options, as words of a command, sorted.

        Raises:
            MarkerError: an option may not stand in a controls file.
        """
        options = {name: f"{name}{value}" for name, value in knobs.items() if name.startswith("-")}
        for name, option in options.items():
            value = knobs[name]
            if isinstance(value, bool) or not self.may_hold(option):
                names = sorted(listed.name for listed in self.known)
                meant = did_you_mean(name, names) if name not in names else ""
                raise MarkerError(
                    f"knob {name!r} = {value!r}: {option[:200]!r} is no option of {self.compiler} that a controls file "
                    f"may hold{meant}: expected {', '.join(names)}, or put it in the toolchain's flags"
                )
        return sorted(options.values())


_PTXAS = "CUDA Compiler Driver NVCC, Ptxas Options"
_NVCC = "CUDA Compiler Driver NVCC, Generic Tool Options"
_GPU = "CUDA Compiler Driver NVCC, Options for Steering GPU Code Generation"
_CACHE = "PTX ISA, Cache Operators: they are performance hints on weak loads and stores"
_FORCED = "PTX ISA, Cache Operators, replaced wherever the source gives its own"
_REGISTERS = Option(
    "--maxrregcount=", r"[0-9]{1,4}", range(24, 255, knockout_prob=0.5), "value-safe", f"{_GPU}: --maxrregcount"
)


def _switch(section: str, name: str, control_class: ControlClass, knockout_prob: float) -> Option:
    return Option(name, "", literal("", knockout_prob=knockout_prob), control_class, f"{section}: {name}")


def _one_of(
    values: Sequence[str], section: str, name: str, control_class: ControlClass, knockout_prob: float
) -> Option:
    drawn = choice(values, knockout_prob=knockout_prob)
    return Option(name, "|".join(values), drawn, control_class, f"{section}: {name.removesuffix('=')}")


_BOOLEAN, _LOADS, _STORES = ("true", "false"), ("ca", "cg", "cs", "cv"), ("wb", "cg", "cs", "wt")
_PTXAS_NAMEABLE = (
    r"--(?:minnctapersm|device-function-maxrregcount)=[0-9]{1,4}|--enable-func-clone-sc=(?:true|false)"
    r"|--Ofast-compile=(?:0|min|mid|max)|--return-at-end|--override-directive-values"
)
PTXAS = CudaOptions(
    "ptxas",
    (
        Option("-O", "[0-4]", choice([1, 2, 3], knockout_prob=0.6), "value-safe", f"{_PTXAS}: --opt-level"),
        _REGISTERS,
        Option(
            "--register-usage-level=",
            r"[0-9]{1,2}",
            range(0, 10, knockout_prob=0.4),
            "value-safe",
            f"{_PTXAS}: --register-usage-level",
        ),
        _one_of(_BOOLEAN, _PTXAS, "--allow-expensive-optimizations=", "value-safe", 0.6),
        _one_of(_LOADS, _CACHE, "--def-load-cache=", "value-safe", 0.6),
        _one_of(_STORES, _CACHE, "--def-store-cache=", "value-safe", 0.6),
        _one_of(_LOADS, _FORCED, "--force-load-cache=", "relaxed-semantics", 0.8),
        _one_of(_STORES, _FORCED, "--force-store-cache=", "relaxed-semantics", 0.8),
        _one_of(_BOOLEAN, _PTXAS, "--fmad=", "contraction", 0.8),
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
        _one_of(_BOOLEAN, _GPU, "--ftz=", "relaxed-maths", 0.7),
        _one_of(_BOOLEAN, _GPU, "--prec-div=", "relaxed-maths", 0.7),
        _one_of(_BOOLEAN, _GPU, "--prec-sqrt=", "relaxed-maths", 0.7),
        _one_of(_BOOLEAN, _GPU, "--fmad=", "contraction", 0.8),
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
