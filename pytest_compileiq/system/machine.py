"""What this machine is."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def this_architecture() -> str:
    """The architecture of this machine as targets spell it: ``x86-64``, ``aarch64``."""
    return platform.machine().replace("_", "-")


def what_it_runs() -> str:
    """What changes times and no machine code: ``Linux 6.1.0-28-amd64, microcode 0xa10113e``."""
    try:
        microcode = re.search(
            r"^microcode\s*:\s*(\S+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except (OSError, ValueError):
        microcode = None
    return ", ".join(
        [f"{platform.system()} {platform.release()}", *([f"microcode {microcode[1]}"] if microcode else [])]
    )
