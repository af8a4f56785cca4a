"""The options of gcc and clang that the tool knows: those that decide how fast a kernel runs, each with its class.

The lists are append-only, so that a committed artifact's knobs may always be read and rendered. A class says what an
option may change; a default space holds what changes no value that the language defines, and a test asks for the rest
by the class's name. Which options a space holds depends on the sources and the baseline too (``flags``), so that an
edit of these may leave committed knobs outside: ``pytest_compileiq.replay.committed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate, ControlClass, ControlsFile, KnobValue
from pytest_compileiq.space import Parameter, choice, literal
from pytest_compileiq.toolchains.macros import DEFINITION
from pytest_compileiq.toolchains.options import NUMBER, Option, OptionList, Unlisted, options_file

_MOST_OPTIONS = 1000
_LONGEST_OPTION = 200

# A compiler's options can run programs and write files, so an option has one of five beginnings.
# No slash, colon, bar, quote, blank or backslash: a value cannot be a path, a program or a second option.
_PLAIN = (
    r"-(?:O(?:[0-3sgz]|fast)?|[fm][A-Za-z0-9][A-Za-z0-9_=.,+-]*|-param=[A-Za-z0-9][A-Za-z0-9_=.,+-]*)"
    rf"|{DEFINITION}"
)
_DOES_MORE = (
    r"-f(?:no-)?(?:"
    r"plugin|pass-plugin|module|pch|load|integrated|"  # run other programs, or read other files
    r"dump|opt-info|stack-usage|callgraph-info|save-|time-trace|diagnostics|crash-diagnostics|mem-report|proc-stat|"
    r"deps-|profile|auto-profile|branch-probabilities|test-coverage|coverage|cs-profile|memory-profile|instrument|"
    r"sanitize|xray|self-test|report-bug|"  # write some
    r"lto|whole-program|wpa|ltrans|thin-?lto|embed|use-ld|linker|resolution|"  # reach the link
    r"syntax-only|preprocessed|directives|working-directory|(?:file|macro|debug)-prefix|debug-compilation-dir|"
    r"(?:input|exec|wide-exec)-charset|random-seed|compare-debug|dbg-cnt|"
    r"PIC|PIE|pic|pie|visibility|common|short-|pack-struct|abi|signed-char|unsigned-char|openmp(?!-simd)|openacc|permissive|"
    # An option named after a file takes one; so does an option with a second "=".
    r"[a-z-]*(?:file|dir|path|list|report|record|index|map|cache|bitcode)[a-z-]*=|[a-z-]+=[A-Za-z0-9_.,+-]*="
    r")"
    r"|-m(?:arch=|cpu=|llvm|abi|32|64|x32|16|fentry|record-mcount|nop-mcount|instrument|cmodel|code-model|no-red-zone)"
)
NAMEABLE = re.compile(f"(?!{_DOES_MORE})(?:{_PLAIN})")


def render_options(candidate: Candidate) -> ControlsFile:
    """The options file of ``candidate``: knobs beginning with ``-``, name and value joined, sorted, one per line."""
    if candidate.blob is not None:
        raise MarkerError("gcc and clang read options, not an opaque controls blob: give Cc a space of named knobs")
    options = [_option(name, value) for name, value in candidate.knobs.items() if name.startswith("-")]
    if len(options) > _MOST_OPTIONS:
        raise MarkerError(f"{len(options)} compiler options in one candidate: expected at most {_MOST_OPTIONS}")
    return options_file(options, candidate.knobs)


def _option(name: str, value: KnobValue) -> str:
    if isinstance(value, bool):
        raise MarkerError(
            f"knob {name!r} = {value}: a compiler option takes no boolean; use literal('', knockout_prob=…)"
        )
    option = f"{name}{value}"
    if len(option) > _LONGEST_OPTION or not re.fullmatch(_PLAIN, option):
        raise MarkerError(
            f"knob {name!r} = {value!r}: {option[:_LONGEST_OPTION]!r} is not an option that a controls file may hold; "
            "expected -f…, -m…, -O… or --param=… in letters, digits and _=.,+-, or a macro -DNAME=VALUE, its value in "
            "letters, digits and _.+-"
        )
    if not NAMEABLE.fullmatch(option):
        raise MarkerError(
            f"knob {name!r} = {value!r}: {option!r} does more than choose how code is generated; "
            "put it in the toolchain's flags, where it applies to both arms"
        )
    return option


# The probability that a knob is off in a random candidate. Options that enable something help more often than they
# hurt, options that disable something seldom help, and two thirds of all candidates should optimise more than the
# baseline.
_CHOICE_OFF = 0.6
_LEVEL_OFF = 0.34
_ENABLING_OFF = 0.5
_DISABLING_OFF = 0.85

_GCC = "GCC manual, Options That Control Optimization"
_GCC_CODE = "GCC manual, Options for Code Generation Conventions"
_GCC_X86 = "GCC manual, x86 Options"
_CLANG = "Clang command line argument reference"
_CLANG_MATHS = "Clang Compiler User's Manual, Controlling Floating Point Behavior"


def _known(name: str, form: str, drawn: Parameter, section: str, control_class: ControlClass = "value-safe") -> Option:
    """An option, and the entry of the manual's ``section`` that says what it does, which leaves out a ``no-``."""
    entry = name.replace("-fno-", "-f", 1).removesuffix("=").replace("--param=", "--param ")
    return Option(name, form, drawn, control_class, f"{section}: {entry}")


def _level(section: str, *values: int | str) -> Option:
    return _known("-O", "[0-3sz]", choice(values, knockout_prob=_LEVEL_OFF), section)


def _number(section: str, name: str, *values: int) -> Option:
    return _known(name, NUMBER, choice(values, knockout_prob=_CHOICE_OFF), section)


def _word(section: str, name: str, *values: str, control_class: ControlClass = "value-safe") -> Option:
    form = "|".join(map(re.escape, values))
    return _known(name, form, choice(values, knockout_prob=_CHOICE_OFF), section, control_class)


def _enabling(section: str, *names: str, control_class: ControlClass = "value-safe") -> Iterator[Option]:
    for name in names:
        yield _known(name, "", literal("", knockout_prob=_ENABLING_OFF), section, control_class)


def _disabling(section: str, *names: str) -> Iterator[Option]:
    for name in names:
        yield _known(name, "", literal("", knockout_prob=_DISABLING_OFF), section)


def _maths(section: str) -> Iterator[Option]:
    """Options of both compilers: two change errno and exception flags alone, the others change values."""
    yield from _enabling(section, "-fno-math-errno", "-fno-trapping-math", control_class="environment")
    yield from _enabling(section, *RELAXED_MATHS, control_class="relaxed-maths")


RELAXED_MATHS = (
    "-fno-signed-zeros",
    "-fassociative-math",
    "-freciprocal-math",
    "-ffinite-math-only",
    "-funsafe-math-optimizations",
)

_UNLISTED = (
    Unlisted("-Ofast|-ffast-math|-ffp-model=fast", "relaxed-maths", f"{_CLANG_MATHS}: -ffast-math"),
    Unlisted(
        "-fstrict-aliasing|-fstrict-overflow|-fno-wrapv|-ffinite-loops|-fstrict-enums|-fdelete-null-pointer-checks",
        "relaxed-semantics",
        f"{_GCC}: -fstrict-aliasing",
    ),
    Unlisted(
        "-fno-stack-protector|-fcf-protection=none|-fno-stack-clash-protection",
        "hardening",
        "GCC manual, Program Instrumentation Options: -fstack-protector",
    ),
    Unlisted("-fopenmp-simd", "order", "OpenMP API, reduction clause: the order of the operations is unspecified"),
    Unlisted("-fno-(?:asynchronous-)?unwind-tables", "environment", f"{_GCC_CODE}: -funwind-tables"),
)
_UNLISTED_GCC = (
    *_UNLISTED,
    Unlisted(
        "-fcx-limited-range|-fcx-fortran-rules|-fsingle-precision-constant",
        "relaxed-maths",
        f"{_GCC}: -fcx-limited-range",
    ),
    Unlisted("-fallow-store-data-races|-fmerge-all-constants", "relaxed-semantics", f"{_GCC}: -fmerge-all-constants"),
)
_UNLISTED_CLANG = (
    *_UNLISTED,
    Unlisted("-ffp-contract=fast-honor-pragmas", "contraction", f"{_CLANG_MATHS}: -ffp-contract"),
)

GCC = OptionList(
    "gcc",
    (
        _level(_GCC, 1, 2, 3, "s"),
        _word(_GCC, "-fvect-cost-model=", "unlimited", "dynamic", "cheap", "very-cheap"),
        _number(_GCC_X86, "-mprefer-vector-width=", 128, 256, 512),
        _word(_GCC, "-ffp-contract=", "off", "fast", control_class="contraction"),
        _number(_GCC, "-falign-loops=", 1, 16, 32, 64),
        _number(_GCC, "-falign-functions=", 16, 32, 64),
        _word(_GCC, "-fira-region=", "one", "all", "mixed"),
        _word(_GCC, "-freorder-blocks-algorithm=", "simple", "stc"),
        _number(_GCC, "-finline-limit=", 50, 200, 600, 2000),
        _number(_GCC_X86, "-mbranch-cost=", 0, 1, 3, 5),
        _number(_GCC, "--param=inline-unit-growth=", 10, 40, 100, 300),
        _number(_GCC, "--param=max-inline-insns-auto=", 5, 15, 30, 100),
        _number(_GCC, "--param=max-unroll-times=", 2, 4, 8, 16),
        _number(_GCC, "--param=max-unrolled-insns=", 50, 200, 400, 800),
        _number(_GCC, "--param=max-completely-peel-times=", 4, 16, 64),
        _number(_GCC, "--param=max-completely-peeled-insns=", 50, 200, 400, 800),
        _number(_GCC, "--param=min-vect-loop-bound=", 1, 2, 4),
        _number(_GCC, "--param=vect-max-peeling-for-alignment=", 0, 1, 4),
        _number(_GCC, "--param=vect-epilogues-nomask=", 0, 1),
        _number(_GCC, "--param=tree-reassoc-width=", 1, 2, 4, 8),
        _number(_GCC, "--param=sched-pressure-algorithm=", 1, 2),
        *_maths(_GCC),
        # loops and vectors
        *_enabling(_GCC, "-ftree-vectorize"),
        *_disabling(_GCC, "-fno-tree-loop-vectorize", "-fno-tree-slp-vectorize"),
        *_enabling(_GCC, "-funroll-loops", "-fpeel-loops", "-fsplit-loops", "-funswitch-loops"),
        *_enabling(_GCC, "-fversion-loops-for-strides", "-floop-interchange", "-floop-unroll-and-jam"),
        *_enabling(_GCC, "-ftree-loop-distribution"),
        *_disabling(_GCC, "-fno-tree-loop-distribute-patterns", "-fno-tree-loop-im", "-fno-ivopts"),
        *_enabling(_GCC, "-fprefetch-loop-arrays", "-fvariable-expansion-in-unroller"),
        # calls
        *_enabling(_GCC, "-finline-functions"),
        *_disabling(_GCC, "-fno-inline-small-functions"),
        *_enabling(_GCC, "-fno-semantic-interposition", control_class="environment"),
        *_enabling(_GCC_CODE, "-fno-plt", control_class="environment"),
        *_enabling(_GCC, "-fipa-pta", "-fipa-cp-clone"),
        *_disabling(_GCC, "-fno-ipa-sra"),
        # redundancy
        *_disabling(_GCC, "-fno-gcse"),
        *_enabling(_GCC, "-fgcse-after-reload"),
        *_disabling(_GCC, "-fno-tree-pre", "-fno-tree-sra"),
        # branches
        *_disabling(_GCC, "-fno-if-conversion"),
        *_enabling(_GCC, "-fsplit-paths", "-ftracer"),
        *_disabling(_GCC_CODE, "-fno-jump-tables"),
        # registers and order
        *_enabling(_GCC, "-fomit-frame-pointer", control_class="environment"),
        *_enabling(_GCC, "-fschedule-insns"),
        *_disabling(_GCC, "-fno-schedule-insns2"),
        *_enabling(_GCC, "-fmodulo-sched", "-flive-range-shrinkage", "-frename-registers"),
    ),
    NAMEABLE,
    _UNLISTED_GCC,
)

CLANG = OptionList(
    "clang",
    (
        _level(_CLANG, 1, 2, 3),
        _number(_CLANG, "-mprefer-vector-width=", 128, 256, 512),
        _word(_CLANG_MATHS, "-ffp-contract=", "off", "on", "fast", control_class="contraction"),
        _number(_CLANG, "-falign-loops=", 16, 32, 64),
        _number(_CLANG, "-falign-functions=", 16, 32, 64),
        *_maths(_CLANG_MATHS),
        *_enabling(_CLANG_MATHS, "-fapprox-func", control_class="relaxed-maths"),
        *_disabling(_CLANG, "-fno-vectorize", "-fno-slp-vectorize"),
        *_enabling(_CLANG, "-funroll-loops"),
        *_disabling(_CLANG, "-fno-unroll-loops", "-fno-inline-functions"),
        *_enabling(_CLANG, "-fno-semantic-interposition", "-fno-plt", control_class="environment"),
        *_disabling(_CLANG, "-fno-jump-tables"),
        *_enabling(_CLANG, "-fomit-frame-pointer", control_class="environment"),
        *_enabling(_CLANG, "-fmerge-all-constants", control_class="relaxed-semantics"),
    ),
    NAMEABLE,
    _UNLISTED_CLANG,
)

BY_COMPILER: Mapping[str, OptionList] = {"gcc": GCC, "g++": GCC, "gfortran": GCC, "clang": CLANG, "clang++": CLANG}
