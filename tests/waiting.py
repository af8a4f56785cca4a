"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 20.0


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether ``condition`` comes true in time."""
    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        if condition():
            return True
        time.sleep(0.01)
    return False
