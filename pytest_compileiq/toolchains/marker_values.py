"""What markers are given, so that equal arguments make equal toolchains. Every tuned test file imports this."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import did_you_mean

Toolchain = TypeVar("Toolchain")


def arguments_by_name(toolchain: type[Toolchain]) -> type[Toolchain]:
    """Have ``toolchain`` answer an unknown or missing argument in a sentence: a decorator."""
    plain = toolchain.__init__
    parameters = list(inspect.signature(toolchain).parameters.values())
    named = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]

    @functools.wraps(plain)
    def checked(self: Toolchain, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        if unknown := next((name for name in kwargs if name not in named), None):
            known = f"expected {', '.join(named)}"
            raise MarkerError(
                f"{toolchain.__name__}() has no argument {unknown!r}{did_you_mean(unknown, named)}: {known}"
            )
        if lacking := [name for name in needed[len(args) :] if name in named and name not in kwargs]:
            raise MarkerError(f"{toolchain.__name__}() lacks the argument {lacking[0]!r}")
        plain(self, *args, **kwargs)

    toolchain.__init__ = checked  # type: ignore[assignment]
    return toolchain


def frozen(value: Any) -> Any:
    """``value`` as tuples, those of a dict sorted; one of a wrong type stays as it is, for ``resolve`` to refuse."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(sorted(value.items(), key=str))
    return tuple(value) if isinstance(value, Sequence) else value


def freeze(toolchain: object, *names: str, optional: Sequence[str] = ()) -> None:
    """Have the arguments ``names`` of ``toolchain`` be ``frozen``, and the ``optional`` ones, of which None is {}."""
    for name in (*names, *optional):
        value = getattr(toolchain, name)
        object.__setattr__(toolchain, name, frozen({} if value is None and name in optional else value))


def named_values(value: object) -> dict[str, Any] | None:
    """The dict of which ``frozen`` made ``value``, its names being texts; None where it was no such dict."""
    pairs = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return None
    values = dict(pairs)
    return values if len(values) == len(pairs) else None  # a name given twice


def call_text(toolchain: object, **changed: object) -> str | None:
    """``Cc("k.c", flags="-O3")``: ``toolchain`` as a call with ``changed`` arguments; None if it lacks one."""
    parameters = inspect.signature(type(toolchain)).parameters
    if changed.keys() - parameters.keys():
        return None
    arguments: list[str] = []
    for name, parameter in parameters.items():
        value = changed.get(name, getattr(toolchain, name, parameter.default))
        if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, tuple):
            arguments += map(_literal, value)
        elif parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            arguments.append(_literal(value))
        elif value != parameter.default and value not in (None, (), {}):
            arguments.append(f"{name}={_literal(value)}")
    return f"{type(toolchain).__name__}({', '.join(arguments)})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list) and (pairs := named_values(value)) is not None and value:
        value = pairs
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(each)}' for key, each in value.items())}}}"
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, tuple | list) else repr(value)
