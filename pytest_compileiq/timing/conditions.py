"""What disturbs measurements on this machine's processor, on Linux: a busy neighbour, the frequency governor."""

from __future__ import annotations

import os
from pathlib import Path

_BUSY = 0.5  # the load of each core beside the one that measures


def cpu_conditions(system: Path = Path("/sys/devices/system/cpu")) -> list[str]:
    """One sentence of advice for each disturbance; empty where nothing is wrong or nothing can be read."""
    sentences = busy_machine()
    governor = _text(system / "cpu0/cpufreq/scaling_governor")
    if governor and governor != "performance":
        sentences.append(f"the frequency governor is {governor!r}: cpupower frequency-set -g performance")
    if _text(system / "intel_pstate/no_turbo") == "0" or _text(system / "cpufreq/boost") == "1":
        sentences.append("the clock may boost, and then falls with heat: turn boost off while you measure")
    return sentences


def busy_machine() -> list[str]:
    """A sentence of advice where others keep this machine's cores busy; empty where they do not."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    is_busy = load > 1 + _BUSY * (cores - 1)
    return [f"the load average is {load:.1f} on {cores} cores: stop other processes"] if is_busy else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
