"""The launch of a kernel: its arguments, configs, heuristics and options; used in the process that compiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.triton.arguments import (
    CONFIG,
    DTYPE,
    LAUNCH_DEFAULTS,
    LaunchArguments,
    config_text,
    config_values,
    is_plain,
    text,
)

Kind = Any  # of an argument: a type such as "*fp16:16", None, or a sequence of kinds for a tuple
_SIZES = re.compile(r"(?<=\[)[^\]]*(?=\])")


def specialised(function: Any, kinds: Mapping[str, Kind], constexprs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the ``ASTSource`` for which Triton's JIT would compile ``function``.

    Args:
        kinds: argument → type, with ``:16`` for a value divisible by 16 and ``:1`` for the value 1.
        constexprs: argument → value; any argument may be None here.

    Raises:
        MarkerError: an argument is missing or unknown, or the JIT would not specialise it this way.
    """
    expect_arguments(function, [*kinds, *constexprs])
    constants: dict[tuple[int, ...], Any] = {}  # by the place of an argument, several numbers within a tuple
    attributes: dict[tuple[int, ...], list[list[object]]] = {}

    def typed(place: tuple[int, ...], kind: Kind) -> Any:
        if isinstance(kind, list | tuple):
            return tuple(typed((*place, number), inner) for number, inner in enumerate(kind))
        if kind is None or kind.endswith(":1"):  # the JIT makes a constant of an integer that is 1
            constants[place] = None if kind is None else 1
            return "constexpr"
        plain, _, hint = kind.partition(":")
        if hint:
            attributes[place] = [["tt.divisibility", int(hint)]]
        return plain

    signature = {}
    for number, parameter in enumerate(function.params):
        name = parameter.name
        if name in kinds:
            _expect_as_the_jit(parameter, kinds[name])
            signature[name] = typed((number,), kinds[name])
        else:
            constants[(number,)] = _constant(function, parameter, constexprs)
            signature[name] = "constexpr"
    return {"signature": signature, "constexprs": constants, "attrs": attributes}


def expect_arguments(function: Any, names: Sequence[str]) -> None:
    """Raise MarkerError for the first of ``names`` that is no argument of ``function``."""
    known = list(function.arg_names)
    if unknown := sorted(set(names) - set(known)):
        meant = did_you_mean(unknown[0], known)
        raise MarkerError(
            f"{function.__name__} has no argument {unknown[0]!r}{meant}; its arguments: {', '.join(known)}"
        )


def with_sizes(kind: Kind, values: Mapping[str, Any]) -> Kind:
    """A descriptor's kind with its sizes as numbers: ``tensordesc<fp16[BLOCK, 64 // 2]>`` computes with constexprs."""
    if isinstance(kind, list):
        return [with_sizes(inner, values) for inner in kind]
    if not isinstance(kind, str) or not kind.startswith("tensordesc<"):
        return kind

    def computed(sizes: re.Match[str]) -> str:
        try:
            numbers = eval(f"({sizes[0]},)", {"__builtins__": {}}, dict(values))  # the test's own text
        except Exception as error:
            raise MarkerError(f"{kind}: {error}: its sizes are numbers, computed with constexprs") from error
        if not all(type(number) is int for number in numbers):
            raise MarkerError(f"{kind}: its sizes are {numbers}: expected integers")
        return ", ".join(map(str, numbers))

    return _SIZES.sub(computed, kind)


def _constant(function: Any, parameter: Any, constexprs: Mapping[str, Any]) -> Any:
    name = parameter.name
    if name in constexprs:
        if not parameter.is_constexpr and constexprs[name] is not None:
            raise MarkerError(
                f"the argument {name!r} is no tl.constexpr: give its type in signature, 'i32:1' where it is 1"
            )
        return constexprs[name]
    if parameter.has_default and (parameter.is_constexpr or parameter.default is None):
        return parameter.default
    what = "a tl.constexpr, and not in constexprs" if parameter.is_constexpr else "in neither signature nor constexprs"
    raise MarkerError(f"the argument {name!r} of {function.__name__} is {what}")


def _expect_as_the_jit(parameter: Any, kind: Kind) -> None:
    """Raise MarkerError if the JIT would never compile ``parameter`` as ``kind``."""
    name, annotated = parameter.name, parameter.annotation_type
    if parameter.is_constexpr:
        raise MarkerError(f"the argument {name!r} is a tl.constexpr: name it in constexprs")
    if not isinstance(kind, str):
        return
    plain, _, hint = kind.partition(":")
    if annotated and plain != annotated:
        raise MarkerError(f"the kernel annotates {name!r} as {annotated}, and the signature says {plain}")
    if parameter.is_const and not plain.startswith("*k"):
        raise MarkerError(f"the kernel annotates {name!r} as constant: write '*k{plain.removeprefix('*')}'")
    never = parameter.do_not_specialize or (hint == "1" and annotated)
    if hint and (never or (hint == "16" and parameter.do_not_specialize_on_alignment)):
        raise MarkerError(f"the JIT does not specialise {name!r}, as the kernel is declared: write {plain!r}")


# The plugin gives these itself, or they name a file, or they add code that no launch of production has.
NOT_FOR_MARKERS = frozenset(
    {"ptx_options", "arch", "backend_name", "ir_override", "extern_libs", "instrumentation_mode"}
)
_LISTED = 3
_NOTHING = object()  # no value that can be written down


@dataclass(frozen=True)
class DecoratedKernel:
    """A decorated ``@triton.jit`` function."""

    function: Any  # the innermost, a JITFunction
    heuristics: tuple[tuple[str, Callable[[Mapping[str, Any]], Any]], ...]  # of its decorators, outermost first
    tuner: Any  # the @triton.autotune around it, or None
    options: frozenset[str]  # the names of the launch options that the installed Triton has for CUDA

    @classmethod
    def of(cls, decorated: Any, options: Sequence[str]) -> DecoratedKernel | None:
        """Take the decorators off; None where no ``@triton.jit`` function is inside."""
        chain = [decorated]
        while not hasattr(chain[-1], "params") and hasattr(chain[-1], "fn"):
            chain.append(chain[-1].fn)
        if not hasattr(chain[-1], "params"):
            return None
        values = (one.values for one in chain if isinstance(getattr(one, "values", None), dict))
        heuristics = [pair for computed in values for pair in computed.items()]
        tuner = next((one for one in chain if hasattr(one, "configs")), None)
        return cls(chain[-1], tuple(heuristics), tuner, frozenset(options) - NOT_FOR_MARKERS)

    @property
    def configs(self) -> list[dict[str, Any]]:
        """The values of each of the tuner's configs that can be written down, each config once."""
        known: dict[str, dict[str, Any]] = {}
        for config in self.tuner.configs if self.tuner else ():
            values = _config(config)
            if not list(_unwritable(config)):
                known.setdefault(config_text(values), values)
        return list(known.values())

    def remarks(self) -> Iterator[str]:
        """Sentences on the parts of the decorators without an effect."""
        if self.tuner is None:
            return
        unknown = {value for config in self.tuner.configs for value in _unwritable(config)}
        if unknown:
            values = ", ".join(sorted(unknown)[:_LISTED])
            yield f"space='autotune' is without the configs of @triton.autotune that set {values}"
        if self.tuner.early_config_prune or self.tuner.perf_model:
            yield "all configs of @triton.autotune count: pruning them requires the arguments of a launch"
        if any(config.pre_hook for config in self.tuner.configs):
            yield "the pre_hook of its configs is not called: the test launches the kernel itself"


class LaunchSettings(NamedTuple):
    """A kernel's constexprs and options, and how they came about, in sentences."""

    constexprs: dict[str, Any]
    options: dict[str, Any]
    remarks: list[str]


def settle(kernel: DecoratedKernel, given: LaunchArguments, language: Any) -> LaunchSettings:
    """The constexprs and options of a launch, as the decorators, the marker and the candidate decide together.

    A later one wins: Triton's defaults, the baseline's config, heuristics, the marker, the candidate's config, its
    knobs. ``language`` is ``triton.language``, for its dtypes.

    Raises:
        MarkerError: a name is neither an argument nor an option, or a heuristic asks for what is not given.
    """
    tried = config_values(given.knobs[CONFIG]) if CONFIG in given.knobs else {}
    own = {name: value for name, value in given.knobs.items() if name != CONFIG}
    named = {**given.constexprs, **given.options, **tried, **own}
    config, remarks = _baseline(kernel, given.config) if not tried else ({}, [])
    parameters = {one.name: one for one in kernel.function.params}
    defaults = {name: one.default for name, one in parameters.items() if one.has_default and one.is_constexpr}
    decided = {name: _object(value, language) for name, value in {**config, **named}.items()}
    values = {**LAUNCH_DEFAULTS, **defaults, **decided}
    unknown = sorted(set(values) - kernel.options - set(kernel.function.arg_names))
    if unknown and unknown[0] in NOT_FOR_MARKERS:
        raise MarkerError(f"the launch option {unknown[0]!r} cannot be given: it is the plugin's, or names files")
    if unknown and (meant := did_you_mean(unknown[0], kernel.options)):
        raise MarkerError(f"the installed Triton has no launch option {unknown[0]!r}{meant}")
    expect_arguments(kernel.function, unknown)
    if twice := sorted(named.keys() & given.kinds.keys()):
        raise MarkerError(f"Triton(…): {twice[0]!r} is named twice: in signature, and as a constexpr or a knob")
    computed = {}
    for name, compute in kernel.heuristics:
        if name not in named:
            computed[name] = values[name] = compute(_Arguments(name, kernel, given, values))
    if computed:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in computed.items())
        remarks = [*remarks, f"@triton.heuristics computes {shown}"]
    constexprs = {name: value for name, value in values.items() if name in parameters and name not in given.kinds}
    launched = {**LAUNCH_DEFAULTS, **decided, **computed}  # the JIT takes no option from a constexpr's default
    return LaunchSettings(
        constexprs, {name: value for name, value in launched.items() if name in kernel.options}, remarks
    )


def _baseline(kernel: DecoratedKernel, wanted: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of the config that the baseline has, if the kernel has configs, and a sentence that names it."""
    name = kernel.function.__name__
    configs = [_config(config) for config in kernel.tuner.configs] if kernel.tuner else []
    if not configs and wanted:
        raise MarkerError(f"Triton(config=…): {name} has no @triton.autotune")
    if not configs:
        return {}, []

    def fits(config: Mapping[str, Any]) -> bool:
        given = ((config.get(name, _NOTHING), value) for name, value in wanted.items())
        return all(is_plain(own) and bool(own == value) for own, value in given)

    fitting = [config for config in configs if fits(config)]
    if wanted and len(fitting) != 1:
        raise MarkerError(
            f"Triton(config={dict(wanted)}): {len(fitting)} of the {len(configs)} configs of {name} have these values: "
            f"name what singles one out, such as {config_text(configs[0])}"
        )
    which = "named in the marker" if wanted else f"the first of {len(configs)}, since nothing was timed to choose one"
    return fitting[0], [f"the baseline's config of @triton.autotune is {which}: {config_text(fitting[0])}"]


def _config(config: Any) -> dict[str, Any]:
    """The values that a ``triton.Config`` sets, apart from Triton's default."""
    values = {name: value for name, value in config.all_kwargs().items() if (name, value) != ("num_ctas", 1)}
    return {name: _plain(value) for name, value in values.items()}


def _unwritable(config: Any) -> Iterator[str]:
    for name, value in _config(config).items():
        if not is_plain(value) or name in NOT_FOR_MARKERS:
            yield f"{name}={_shown(value)}"


class _Arguments(dict[str, Any]):
    """The arguments of a launch as heuristics see them: those of the signature are there, most without a value."""

    def __init__(
        self, computed: str, kernel: DecoratedKernel, given: LaunchArguments, values: Mapping[str, Any]
    ) -> None:
        ones = {name: 1 for name, kind in given.kinds.items() if isinstance(kind, str) and kind.endswith(":1")}
        defaults = {one.name: one.default for one in kernel.function.params if one.has_default}
        super().__init__({**defaults, **ones, **values, **given.arguments})
        self._computed, self._kinds, self._function = computed, given.kinds, kernel.function.__name__

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._kinds

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def __missing__(self, name: str) -> Any:
        kind = self._kinds.get(name)
        if isinstance(kind, str) and kind.startswith(("*", "tensordesc")):
            return _Pointer(name, self._computed)
        raise MarkerError(
            f"@triton.heuristics of {self._function}: {self._computed!r} is computed from {name!r}: give a value, "
            f"arguments={{{name!r}: …}}, or {self._computed!r} itself in constexprs"
        )


class _Pointer:
    """A tensor of which nothing is known but that it is there."""

    def __init__(self, name: str, computed: str) -> None:
        self._said = f"@triton.heuristics: {computed!r} is computed from {name}"
        self._remedy = f"which is not known ahead of time: name {computed!r} in constexprs"

    def __getattr__(self, name: str) -> Any:
        raise MarkerError(f"{self._said}.{name}, {self._remedy}")


def _object(value: Any, language: Any) -> Any:
    """A plain value as the kernel gets it."""
    if isinstance(value, list):
        return tuple(_object(inner, language) for inner in value)
    if isinstance(value, str) and value.startswith(DTYPE):
        dtype = getattr(language, value.removeprefix(DTYPE), None)
        if not isinstance(dtype, language.dtype):
            known = sorted(name for name, one in vars(language).items() if isinstance(one, language.dtype))
            meant = did_you_mean(value.removeprefix(DTYPE), known)
            raise MarkerError(f"{value!r} is no dtype of triton.language{meant}: it has {', '.join(known)}")
        return dtype
    return value


def _plain(value: Any) -> Any:
    """A value of the kernel's own file, plain where it can be written down."""
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton"):
        return DTYPE + repr(value).rpartition(".")[2]
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def _shown(value: Any) -> str:
    return text(_plain(value))[:100]


def written(values: Mapping[str, Any]) -> dict[str, Any]:
    """The ``values`` that can be written down, plain."""
    return {name: _plain(value) for name, value in values.items() if is_plain(_plain(value))}
