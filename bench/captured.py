"""What the benches of captures share: the program of ``captured_program`` built and captured in a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from machine import describe

PROGRAM = Path(__file__).parent / "captured_program"
KERNELS = ("gather", "ragged", "branchy", "stencil", "reduction", "histogram")
BUNDLE, LIBRARY = "acf-capture", "kernels.so"


def machine_and_load() -> str:
    """What the figures were taken on, and what else it did."""
    return f"{describe()}; load {os.getloadavg()[0]:.1f}"


def copied(root: Path) -> Path:
    """The program and its sources in ``root``, which must not be there."""
    return Path(shutil.copytree(PROGRAM, root, ignore=shutil.ignore_patterns("__pycache__")))


def build(root: Path, flags: str, library: str = LIBRARY, *, is_silent: bool = False) -> Path:
    """A library of the six kernels, which keeps ``flags`` for ``acf capture --tests``."""
    errors = subprocess.DEVNULL if is_silent else None
    sources = sorted(path.name for path in root.glob("*.c"))
    command = ["gcc", *flags.split(), "-g", "-shared", "-fPIC", *sources, "-o", library]
    subprocess.run(command, cwd=root, check=True, stderr=errors)
    return root / library


def run(root: Path, library: Path, *arguments: str) -> None:
    """The program, in silence, without this package."""
    command = [sys.executable, "program.py", str(library), *arguments]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)


def capture(root: Path, *options: str, program: tuple[str, ...]) -> str:
    """``acf capture`` of the program with its library; what it printed."""
    command = [sys.executable, "-m", "pytest_compileiq.cli", "capture", *options, "--"]
    command += [sys.executable, "program.py", LIBRARY, *program]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
