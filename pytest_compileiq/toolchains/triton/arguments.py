"""The marker's arguments for a kernel and its launch, checked as far as that needs no Triton."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Knobs
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.values import CONFIG, plain

_SCALAR = r"\*{0,2}(?:k)?(?:[ui]\d{1,2}|i1|fp\d{1,2}[a-z0-9]*|bf16|f\d{2})(?::(?:16|1))?"
_TYPE = re.compile(rf"{_SCALAR}|tensordesc<[a-z0-9]+\[[\w ,+*/()-]+\]>")
_HINTED = re.compile(r"[^:]*|\*.*:16|[ui](?!1:)\d+:(?:16|1)")


@dataclass(frozen=True)
class Arguments:
    """What the marker says, in values that JSON carries.

    Attributes:
        kinds: argument → type, a list of types for a tuple.
        options: launch options, those that the marker names.
        config: what singles out the baseline's config.
        arguments: values that heuristics ask for.
    """

    kinds: Mapping[str, Any]
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]
    config: Mapping[str, Any]
    arguments: Mapping[str, Any]

    def job(self, knobs: Knobs) -> dict[str, Any]:
        """As the process that compiles takes them, with a candidate's ``knobs``."""
        return {
            "signature": self.kinds,
            "constexprs": self.constexprs,
            "options": self.options,
            "config": self.config,
            "arguments": self.arguments,
            "knobs": {name: value if name == CONFIG else plain(value) for name, value in knobs.items()},
        }


def check_arguments(triton: Triton) -> Arguments:
    """The marker's arguments.

    Raises:
        MarkerError: one cannot be used.
    """
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
    return Arguments(kinds, constexprs, options | others, config, arguments)


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
