"""One digest of several parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest_of(parts: Iterable[bytes]) -> bytes:
    """SHA-256 of ``parts``, each preceded by its length, so that different sequences have different digests."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()
