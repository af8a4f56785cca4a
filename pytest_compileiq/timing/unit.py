"""Which specimen of its model the device here is: a claim over several devices names them, and counts them by this."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from pathlib import Path

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import UNIT
from pytest_compileiq.system.files import is_in_container

MACHINE = "ACF_MACHINE"
# machine-id(5) asks for it: the id is confidential, and an application tells others a digest under a key of its own.
_KEY = b"pytest-compileiq: which machine"
_ID = re.compile(r"[0-9a-f]{32}")
_DIGITS = 32


def unit_of(kind: str, root: Path = Path("/")) -> str:
    """The device of ``kind`` in use: a GPU, or a part of one, by NVML's UUID, a processor by its machine.

    Empty where nothing tells: whatever else is unknown may be the same device.
    """
    if kind == "cpu":
        return _machine(root)
    from pytest_compileiq.timing.cuda_context import current_uuid  # heavy: the CUDA driver

    try:
        return current_uuid()
    except EnvironmentFault:
        return ""


def _machine(root: Path) -> str:
    """What ``ACF_MACHINE`` says, else a digest of the machine's id.

    In a container that is the id of the kernel's boot: containers of one image may hold one and the same machine-id,
    and those on one machine have to count as one.
    """
    if given := os.environ.get(MACHINE):
        return given if UNIT.fullmatch(given) else _digest(given)
    machine = "" if is_in_container() else _text(root / "etc/machine-id")
    known = machine if _ID.fullmatch(machine) else _text(root / "proc/sys/kernel/random/boot_id")
    return _digest(known) if known else ""


def _digest(text: str) -> str:
    return f"CPU-{hmac.new(_KEY, text.encode(errors='replace'), hashlib.sha256).hexdigest()[:_DIGITS]}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
