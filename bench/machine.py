"""What the figures were taken on."""

import os
import platform
import resource
import subprocess
from pathlib import Path


def describe() -> str:
    """Processor, cores that this process may use, system, Python and compiler, one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system, python = platform.platform(terse=True), platform.python_version()
    return f"{processor()}, {cores} cores, {system}, Python {python}, {_first_line('gcc', '--version')}"


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _first_line(*command: str) -> str:
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"no {command[0]}"
    return printed.splitlines()[0]


def processor_time_s() -> float:
    """Seconds of processor time of all processes that this one started and awaited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
