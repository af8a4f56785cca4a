"""What markers are given, so that equal arguments make equal toolchains. Every tuned test file imports this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def frozen(value: Any) -> Any:
    """``value`` as tuples, those of a dict sorted; one of a wrong type stays as it is, for ``resolve`` to refuse."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(sorted(value.items(), key=str))
    return tuple(value) if isinstance(value, Sequence) else value


def named_values(value: object) -> dict[str, Any] | None:
    """The dict of which ``frozen`` made ``value``, its names being texts; None where it was no such dict."""
    pairs = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return None
    values = dict(pairs)
    return values if len(values) == len(pairs) else None  # a name given twice
