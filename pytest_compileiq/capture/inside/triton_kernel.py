"""What a compiled Triton kernel was specialised for, in JSON's types, as ``Triton(…)`` of this project spells it."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

from .values import Refused

# What Triton's compiler fills in by itself, for its target and from its own files.
_OF_THE_TARGET = frozenset(
    {"arch", "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "max_num_imprecise_acc_default"}
)
_OF_THE_INSTALLATION = frozenset({"extern_libs", "backend_name", "ptx_options", "ir_override", "instrumentation_mode"})
_ALWAYS_TOLD = ("num_warps", "num_stages")
_FUSION = "enable_fp_fusion"
_LONGEST = 1000  # of a text
_UNSAID = "tl.", "(", "None"  # how texts begin that a marker reads as something else than texts


def where(function: Any) -> dict[str, Any]:
    """Which kernel a ``JITFunction`` is: its file, its name there, its module."""
    plain = function.fn
    return {
        "file": os.path.abspath(plain.__code__.co_filename),
        "function": plain.__qualname__,
        "module": plain.__module__,
    }


def specialisation(kernel: Any) -> dict[str, Any]:
    """The signature, constexprs, options and target of a ``CompiledKernel``.

    Where no ``Triton(…)`` could say them, ``why`` does, in words that continue after ``it``, and there is no signature.

    Raises:
        Refused: it has no PTX.
    """
    metadata = kernel.metadata
    if metadata.target.backend != "cuda":
        raise Refused(f"is compiled for {metadata.target.backend}")
    told = {"capability": int(metadata.target.arch), "ptx_options": getattr(metadata, "ptx_options", None)}
    try:
        told["options"] = _options(metadata)
        told["signature"], told["constexprs"] = _arguments(kernel.src, metadata)
        return {**told, "why": None}
    except Refused as reason:
        why = str(reason)
    except Exception as error:  # of a Triton that keeps it in another way
        why = f"is of a Triton that is not known here ({type(error).__name__}: {error!s:.200})"
    return {"options": {}, **told, "signature": {}, "constexprs": {}, "why": why}


def _arguments(source: Any, metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The signature and the constexprs.

    Raises:
        Refused: no ``Triton(…)`` says them.
    """
    if not hasattr(source, "fn"):
        raise Refused("is compiled from an intermediate representation, and from no function")
    if not source.fn.fn.__qualname__.isidentifier():
        raise Refused("is defined within a function or a class, where no test can name it")
    if getattr(source.fn, "is_gluon", bool)():
        raise Refused("is written in Gluon, which is not compiled ahead of time here")
    for name in ("ir_override", "instrumentation_mode"):
        if getattr(metadata, name, None):
            raise Refused(f"is compiled with {name}={getattr(metadata, name)!r:.60}")
    signature: dict[str, Any] = {}
    constexprs: dict[str, Any] = {}
    for place, parameter in enumerate(source.fn.params):
        name, kind = parameter.name, source.signature[parameter.name]
        if parameter.is_constexpr or (kind == "constexpr" and source.constants[(place,)] is None):
            constexprs[name] = _constant(name, source.constants[(place,)])
        else:
            signature[name] = _kind(name, kind, (place,), source)
    return signature, constexprs


def _kind(name: str, kind: Any, path: tuple[int, ...], source: Any) -> Any:
    """The type of an argument with what is known of its value; a list of them for a tuple."""
    if isinstance(kind, (tuple, list)):
        return [_kind(name, inner, (*path, place), source) for place, inner in enumerate(kind)]
    if kind == "constexpr":
        value = source.constants[path]
        if value is None:
            return None
        if type(value) is not int or value != 1:
            raise Refused(f"is given a constant as {name}, which is no tl.constexpr")
        return "i32:1"
    hints = [tuple(hint) for hint in source.attrs.get(path, ())]
    if hints in ([], [("tt.divisibility", 16)]):
        return f"{kind}:16" if hints else str(kind)
    raise Refused(f"is specialised by {hints[0][0]} of {name}, which Triton(…) cannot say")


def _constant(name: str, value: Any) -> Any:
    """A constexpr's value; a tuple is a list, a dtype ``"tl.float16"``."""
    if type(value).__name__ == "constexpr":
        value = value.value
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton"):
        return f"tl.{repr(value).rpartition('.')[2]}"
    if isinstance(value, (tuple, list)):
        return [_constant(name, inner) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= _LONGEST and not value.startswith(_UNSAID):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, int) or (hasattr(value, "__index__") and not hasattr(value, "data_ptr")):
        return int(value)
    told = "a function" if hasattr(value, "fn") else f"{value!r:.60}"
    raise Refused(f"is given {told} as {name}, which cannot be written down")


def _options(metadata: Any) -> dict[str, Any]:
    """The launch options that are not Triton's own defaults, and how many warps and stages there are in any case."""
    kind = sys.modules["triton.backends.nvidia.compiler"].CUDAOptions
    defaults = {name: getattr(kind, name, None) for name in kind.__dataclass_fields__}
    defaults[_FUSION] = _default_fusion()
    options = {}
    for name in defaults.keys() - _OF_THE_TARGET - _OF_THE_INSTALLATION:
        value, default = (
            list(each) if isinstance(each, tuple) else each for each in (getattr(metadata, name, None), defaults[name])
        )
        if name in _ALWAYS_TOLD or value != default:
            options[name] = _constant(name, value)
    return dict(sorted(options.items()))


def _default_fusion() -> Any:
    """Whether a launch that says nothing of it fuses, where the environment says nothing either; None if not known.

    The field's own default is never used: Triton 3.9 fuses, and 3.10 is announced not to.
    """
    knobs = getattr(sys.modules.get("triton.knobs"), "language_knobs", None)
    default = getattr(vars(knobs).get("default_fp_fusion"), "default", None) if knobs else None
    return default if isinstance(default, bool) else None
