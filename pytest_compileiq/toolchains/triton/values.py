"""The values of a kernel's constexprs and launch options, as markers, knobs and artifacts write them.

A bool, a number and a string stand for themselves. What a knob cannot be is written as in Python: ``"None"``,
``"tl.float16"``, ``"(64, 64)"``. A whole ``triton.Config`` is the keywords of a call: ``"BLOCK=128, num_warps=4"``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Knobs

CONFIG = "config"  # the knob that is a whole triton.Config
DTYPE = "tl."
LAUNCH_DEFAULTS = {"num_warps": 4, "num_stages": 3}  # Triton's, for CUDA

# How lines begin that the compiling process prints for the one that started it.
REFUSED = "refused: "
NOTE = "note: "

_NO_LITERAL = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # what a text raises that is none


def plain(value: object) -> Any:
    """A value as JSON carries it: a tuple is a list, a dtype ``"tl.float16"``, None null.

    Raises:
        MarkerError: it is no value of a constexpr that can be written down.
    """
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
    """Whether ``plain`` takes it."""
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
    """The values that a config's text holds.

    Raises:
        MarkerError: it is no such text.
    """
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
