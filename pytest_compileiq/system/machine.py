"""What this machine is."""

from __future__ import annotations

import platform


def this_architecture() -> str:
    """The architecture of this machine as targets spell it: ``x86-64``, ``aarch64``."""
    return platform.machine().replace("_", "-")
