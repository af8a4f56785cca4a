"""What disturbs measurements on this machine's processor, on Linux: a busy neighbour, the frequency governor."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_compileiq.system.files import text_of
from pytest_compileiq.system.other_processes import others_in
from pytest_compileiq.system.printing import harmless

_BUSY = 0.5  # the load of each core beside the one that measures
_WINDOW_S = 0.1


def cpu_conditions(system: Path = Path("/sys/devices/system/cpu")) -> list[str]:
    """One sentence of advice for each disturbance; empty where nothing is wrong or nothing can be read."""
    sentences = busy_machine()
    governor = text_of(system / "cpu0/cpufreq/scaling_governor")
    if governor and governor != "performance":
        sentences.append(f"the frequency governor is {governor!r}: cpupower frequency-set -g performance")
    if text_of(system / "intel_pstate/no_turbo") == "0" or text_of(system / "cpufreq/boost") == "1":
        sentences.append("the clock may boost, and then falls with heat: turn boost off while you measure")
    return sentences


def busy_machine() -> list[str]:
    """A sentence of advice where others keep this machine's cores busy; empty where they do not."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    # The load average costs nothing to read, but includes this run's own builds and workers.
    if load <= 1 + _BUSY * (cores - 1) or (others := others_in(_WINDOW_S)) is None:
        return []
    if others.cores <= _BUSY * max(1, cores - 1):
        return []
    names = f" ({harmless(', '.join(others.names))})" if others.names else ""
    return [f"other processes{names} keep {others.cores:.1f} of {cores} cores busy: stop them"]
