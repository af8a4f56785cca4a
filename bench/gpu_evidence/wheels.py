"""The Python that measures: this one where it has the packages, else one made without a network from a bundle."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = "import numpy, pytest, pytest_compileiq.plugin, pytest_compileiq.artifact, cuda.core, pynvml, scipy.stats"
INSTALLED = "import importlib.metadata as m; m.version('pytest-compileiq')"  # pytest loads it by that entry


def environment(home: Path, wheels: Path | None) -> str:
    """The path of its interpreter.

    Raises:
        SystemExit: packages are missing, and there are no wheels, or not all of them.
    """
    if suffices(sys.executable):
        return sys.executable
    python = home / "venv" / "bin" / "python"
    if python.exists() and suffices(str(python)):
        return str(python)
    if wheels is None:
        raise SystemExit(
            "this Python lacks packages: give --wheels DIR, which 'gpu_evidence bundle DIR' writes elsewhere"
        )
    make(python.parents[1], wheels)
    if not suffices(str(python)):
        raise SystemExit(f"{wheels} lacks packages: {_said(str(python))}")
    return str(python)


def suffices(python: str) -> bool:
    return not _said(python)


def make(folder: Path, wheels: Path) -> None:
    """A virtual environment of the wheels, above the machine's packages: what was left out may be there.

    Raises:
        SystemExit: pip refuses.
    """
    found = sorted(str(path) for path in wheels.glob("*.whl"))
    if not found:
        raise SystemExit(f"{wheels} holds no wheel: write it by 'gpu_evidence bundle {wheels}'")
    install = ("-m", "pip", "install", "--quiet", "--no-index", f"--find-links={wheels}", *found)
    for command in (
        [sys.executable, "-m", "venv", "--clear", "--system-site-packages", str(folder)],
        [str(folder / "bin" / "python"), *install],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the wheels in {wheels} cannot be installed here:\n{done.stdout}{done.stderr}")


def _said(python: str) -> str:
    """What Python says of the packages that it lacks; empty when none."""
    command = [python, "-c", f"{NEEDED}; {INSTALLED}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stderr.strip().rpartition("\n")[2] or "" if said.returncode else ""
