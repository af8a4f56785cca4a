"""The classes of an artifact's controls, from its knobs and the compilers' lists: what it says of itself is no source.

Nothing is compiled: the recorded command tells what the baseline assumes, and a normal run holds that to the test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, StoreError
from pytest_compileiq.model import LONGEST_TEXT, PARAMS, ControlClass, ControlsFile, Knobs, KnobValue, Licence
from pytest_compileiq.rules.classes import Classed, promises_bits
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.toolchains.base import Builder
from pytest_compileiq.toolchains.cc.flags import BaselineFlags
from pytest_compileiq.toolchains.cc.known_options import BY_COMPILER, render_options
from pytest_compileiq.toolchains.command.marker import is_recorded_template
from pytest_compileiq.toolchains.macros import macro_of
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS
from pytest_compileiq.toolchains.options import OptionList, Render, Unlisted, options_of, parse_controls
from pytest_compileiq.toolchains.params import marker as params
from pytest_compileiq.toolchains.triton.arguments import CONFIG, config_values

ACF = "the ACF"
_LISTS: Mapping[str, OptionList] = {**BY_COMPILER, "ptxas": PTXAS, "triton": PTXAS, "nvcc": NVCC}


def classes_of(compiler: str, command: Sequence[str], kind: str, knobs: Knobs) -> Classed:
    """Each control of ``compiler`` behind ``command`` with its class; None for macros and parameters."""
    return Classed.of(_each(compiler, command, kind, knobs))


def classes_in(artifact: Artifact) -> Classed:
    """The controls of ``artifact``, each with its own class; none where it has no controls."""
    controls, compiler = artifact.controls, artifact.compiler
    if controls is None:
        return Classed()
    return classes_of(compiler.name, compiler.command, controls.kind, controls.knobs)


def check_classes(artifact: Artifact, classed: Classed | None = None) -> None:
    """Check the classes that ``artifact`` states, if any, against those of its controls (``classed``).

    Raises:
        StoreError: they differ.
    """
    if artifact.classes and artifact.classes != (own := (classed or classes_in(artifact)).own):
        said, are = (", ".join(classes) or "none" for classes in (artifact.classes, own))
        raise StoreError(
            f"the metadata of {artifact.target} says classes {said}, and its controls have {are}: restore the file "
            "from git, or delete the line classes = […]"
        )


def licences_in(artifact: Artifact) -> tuple[Licence, ...]:
    """The licences that ``artifact`` records, found by experiment; any, where it has controls and records none."""
    if artifact.licences is None:
        remedy = f"pytest --tune --tune-budget=0 {for_shell(artifact.benchmark)}"
        return (Licence("unknown", "opaque", "metadata without licences", remedy),) if artifact.controls else ()
    return tuple(Licence(licence.name, licence.allows, licence.where, licence.remedy) for licence in artifact.licences)


def _each(compiler: str, command: Sequence[str], kind: str, knobs: Knobs) -> Iterator[tuple[str, ControlClass | None]]:
    if kind == "blob":
        yield ACF, "opaque"
    listed, baseline = _LISTS.get(compiler), BaselineFlags.of(compiler, command)
    for name, value in knobs.items():
        option = f"{name}{value}" if name.startswith("-") else f"{name}={value}"
        if macro_of(option) is not None:
            yield option, None
        elif not name.startswith("-"):
            yield from _of_launch(name, value) if compiler == "triton" else [(option, None)]
        elif listed is None:
            yield option, "opaque"
        else:
            own = listed.class_of(option)
            yield option, baseline.widened(own, option) if compiler in BY_COMPILER else own


# What launch options of Triton may change. They come from the test's own space, so there is nothing to draw here.
_CONFIG = "Triton documentation, triton.Config"
_COMPILER = "Triton, third_party/nvidia/backend/compiler.py, CUDAOptions"
_GUIDE = "CUDA Programming Guide"
LAUNCH_OPTIONS = (
    Unlisted("num_warps|num_stages|num_ctas", "order", f"{_CONFIG}: how the work of a block is divided"),
    Unlisted("warp_size|clc", "order", f"{_COMPILER}: which threads and blocks do the work"),
    Unlisted("maxnreg", "value-safe", f"{_CONFIG}: maxnreg"),
    Unlisted("launch_cooperative_grid|debug|sanitize_overflow|ptx_version|min_shared_mem", "value-safe", _COMPILER),
    Unlisted("enable_fp_fusion", "contraction", f"{_COMPILER}: enable_fp_fusion becomes ptxas's --fmad"),
    Unlisted("enable_reflect_ftz", "relaxed-maths", f"{_COMPILER}: denormals are zero in libdevice"),
    Unlisted("fpsan_homomorphic_casts", "relaxed-maths", f"{_COMPILER}: stand-ins of values under the sanitizer"),
    Unlisted(
        "default_dot_input_precision|allowed_dot_input_precisions|max_num_imprecise_acc_default|supported_fp8_dtypes"
        "|deprecated_fp8_dot_operand_dtypes",
        "relaxed-maths",
        "Triton documentation, triton.language.dot: input_precision, max_num_imprecise_acc",
    ),
    Unlisted(
        "launch_pdl",
        "relaxed-semantics",
        f"{_GUIDE}, Programmatic Dependent Launch (Triton's launch_pdl): it begins before earlier writes can be seen",
    ),
    Unlisted("sched4reg", "opaque", f"{_COMPILER}: undocumented by Triton"),
)
# What a kernel makes of its constexprs is its own affair: most are sizes of tiles, and so of what is summed first.
CONSTEXPRS: ControlClass = "order"
CONSTEXPRS_SOURCE = "Triton documentation, triton.language.constexpr"


def _of_launch(name: str, value: KnobValue) -> Iterator[tuple[str, ControlClass]]:
    """A launch option or constexpr with its class; of a whole config, each of its values."""
    if name != CONFIG:
        own = (each.control_class for each in LAUNCH_OPTIONS if re.fullmatch(each.form, name))
        yield f"{name}={value}", next(own, CONSTEXPRS)
        return
    try:
        values = config_values(value)
    except MarkerError:
        yield f"{name}={value}", "opaque"
        return
    for inner, of_config in values.items():
        yield from _of_launch(inner, of_config)


_RENDERERS: Mapping[str, Render] = {
    "gcc": render_options,
    "clang": render_options,
    "ptxas": PTXAS.render,
    "nvcc": NVCC.render,
    "triton": PTXAS.render_launch,
}


def option_list(compiler: str, command: Sequence[str]) -> OptionList | None:
    """The option table of ``compiler``; None for ``Command`` and third-party toolchains, whose test alone knows it."""
    return None if compiler not in _RENDERERS or is_recorded_template(command) else _LISTS[compiler]


def check_committed(compiler: str, kind: str, data: bytes, knobs: Knobs, named: NamedOptions) -> None:
    """Check committed controls against the ``option_list`` of ``compiler``, which must have one or compile nothing.

    Raises:
        StoreError: ``data`` is not what ``knobs`` render to, or an option may not be committed.
    """
    if compiler == PARAMS:
        parse_controls(kind, data, knobs, params.render)
        return
    if reason := _LISTS[compiler].why_not(options_of(knobs), named):
        raise StoreError(reason)
    parse_controls(kind, data, knobs, _RENDERERS[compiler])


def licences_or_unknown(builder: Builder) -> tuple[Licence, ...]:
    """The licences of the baseline and its sources; everything, where they cannot be found out."""
    try:
        return builder.licences()
    except (BuildError, EnvironmentFault, StoreError) as error:  # a finished search is worth more than this answer
        reason = " ".join(str(error).split())[:LONGEST_TEXT]
        return (Licence("unknown", "opaque", reason, "a compiler that answers"),)


def has_to_keep_bits(builder: Builder, controls: ControlsFile, licences: Sequence[Licence]) -> bool:
    """Whether a kernel with ``controls`` must give the baseline's bits, with ``licences`` of ``builder``."""
    compiler = builder.compiler
    classed = classes_of(compiler.name, compiler.command, controls.kind, controls.knobs)
    return not classed.tests_own and promises_bits(classed.own, licences)
