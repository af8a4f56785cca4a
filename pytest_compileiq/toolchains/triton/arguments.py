"""The values of a kernel's constexprs and launch options, as markers, knobs and artifacts write them.

A bool, a number and a string stand for themselves. What a knob cannot be is written as in Python: ``"None"``,
``"tl.float16"``, ``"(64, 64)"``. A whole ``triton.Config`` is the keywords of a call: ``"BLOCK=128, num_warps=4"``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Knobs
from pytest_compileiq.toolchains.triton.marker import Triton

CONFIG = "config"  # the knob that is a whole triton.Config
DTYPE = "tl."
LAUNCH_DEFAULTS = {"num_warps": 4, "num_stages": 3}  # Triton's, for CUDA

# How lines begin that the compiling process prints for the one that started it.
REFUSED = "refused: "
NOTE = "note: "

_NO_LITERAL = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # what a text raises that is none


def plain(value: object) -> Any:
    """A value as JSON carries it: a tuple is a list, a dtype ``"tl.float16"``; MarkerError for one of another kind."""
    if isinstance(value, str) and (value == "None" or value.startswith("(")):
        return _literal(value)
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if not isinstance(value, bool | int | float | str | None):
        raise MarkerError(
            f"{value!r} cannot be written down: expected a bool, a number, a string, None, a tuple of these, or a "
            "dtype as 'tl.float16'"
        )
    return value


def is_plain(value: object) -> bool:
    """Whether ``plain`` takes ``value``."""
    try:
        plain(value)
    except MarkerError:
        return False
    return True


def text(value: Any) -> str:
    """A plain value as Python writes it, a dtype without quotes."""
    if isinstance(value, list):
        inner = ", ".join(map(text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return value if isinstance(value, str) and value.startswith(DTYPE) else repr(value)


def config_text(values: Mapping[str, Any]) -> str:
    """A config's values as one text."""
    return ", ".join(f"{name}={text(value)}" for name, value in values.items())


def config_values(config: object) -> dict[str, Any]:
    """The values that a config's text holds; MarkerError for another text."""
    try:
        call = ast.parse(f"config({config})", mode="eval").body
        keywords = call.keywords if isinstance(call, ast.Call) and not call.args else []
        values = {str(keyword.arg): _value(keyword.value) for keyword in keywords}
    except _NO_LITERAL:
        values = {}
    if not values or config_text(values) != config:
        raise MarkerError(f"config={str(config)[:200]!r}: expected values such as 'BLOCK=128, num_warps=4'")
    return values


def launch_params(knobs: Knobs) -> dict[str, Any]:
    """The knobs that a launch takes, those that are no compiler's options; of a whole config, its values one by one.

    Raises:
        MarkerError: the config is none, or a value begins as a tuple and is none.
    """
    config = config_values(knobs[CONFIG]) if CONFIG in knobs else {}
    others = {name: value for name, value in knobs.items() if name != CONFIG and not name.startswith("-")}
    for value in others.values():
        plain(value)
    return config | others


def _value(node: ast.expr) -> Any:
    """The plain value that ``node`` is; ValueError or TypeError where it is none."""
    if isinstance(node, ast.Tuple):
        return [_value(inner) for inner in node.elts]
    dtype = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
    value = dtype or ast.literal_eval(node)
    if not isinstance(value, bool | int | float | str | None) or (dtype and not dtype.startswith(DTYPE)):
        raise ValueError(ast.unparse(node))
    return value


def _literal(value: str) -> Any:
    try:
        return _value(ast.parse(value, mode="eval").body)
    except _NO_LITERAL as error:
        raise MarkerError(f"{value[:200]!r}: expected a tuple such as '(64, 64)'") from error


_SCALAR = r"\*{0,2}(?:k)?(?:[ui]\d{1,2}|i1|fp\d{1,2}[a-z0-9]*|bf16|f\d{2})(?::(?:16|1))?"
_TYPE = re.compile(rf"{_SCALAR}|tensordesc<[a-z0-9]+\[[\w ,+*/()-]+\]>")
_HINTED = re.compile(r"[^:]*|\*.*:16|[ui](?!1:)\d+:(?:16|1)")


@dataclass(frozen=True)
class LaunchArguments:
    """What the marker and a candidate say about a launch, in values that JSON carries."""

    kinds: Mapping[str, Any]  # the signature: argument → type, a list of types for a tuple
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]  # launch options, num_warps and num_stages among them where the marker names them
    config: Mapping[str, Any]  # values that single out the config which is the baseline; empty for the first
    arguments: Mapping[str, Any]  # values of arguments that heuristics ask for
    knobs: Mapping[str, Any] = field(default_factory=dict)  # the candidate's; "config" is the text of a whole config

    def with_knobs(self, knobs: Knobs) -> LaunchArguments:
        return replace(self, knobs={name: value if name == CONFIG else plain(value) for name, value in knobs.items()})


def check_arguments(triton: Triton) -> LaunchArguments:
    """The marker's arguments; MarkerError for one that cannot be used."""
    kinds = {name: _kind(name, kind) for name, kind in _mapping("signature", triton.signature).items()}
    constexprs = _values("constexprs", triton.constexprs)
    options = {name: value for name in ("num_warps", "num_stages") if (value := getattr(triton, name)) is not None}
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise MarkerError(f"Triton({name}={value!r}): expected a positive integer")
    others = _values("options", triton.options)
    if both := sorted((others.keys() & (options.keys() | constexprs.keys())) | (kinds.keys() & constexprs.keys())):
        raise MarkerError(f"Triton(…): {both[0]!r} is named twice")
    config, arguments = _values("config", triton.config), _values("arguments", triton.arguments)
    return LaunchArguments(kinds, constexprs, options | others, config, arguments)


def _mapping(where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise MarkerError(f"Triton({where}={given!r}): expected a dict of names")
    return dict(given)


def _values(where: str, given: object) -> dict[str, Any]:
    values = {}
    for name, value in _mapping(where, given).items():
        try:
            values[name] = plain(value)
        except MarkerError as error:
            raise MarkerError(f"Triton({where}=…): {name}: {error}") from error
    return values


def _kind(name: str, kind: object) -> Any:
    if kind is None:
        return None
    if isinstance(kind, list | tuple):
        return [_kind(name, inner) for inner in kind]
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise MarkerError(
            f"Triton(signature=…): {name} = {kind!r}: expected a type such as '*fp32:16' or 'i32', "
            "'tensordesc<fp16[128, 64]>', or a tuple of types"
        )
    if not _HINTED.fullmatch(kind):
        raise MarkerError(
            f"Triton(signature=…): {name} = {kind!r}: ':16' is for pointers and integers that are divisible by 16, "
            "':1' for integers that are 1"
        )
    return kind
