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
