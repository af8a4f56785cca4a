"""The six kernels of a program, captured and tuned for time in one night's budget, committed, replayed and checked.

    python bench/captured_night.py [--total 10m] [--frames 60] [--flags=-O2] [--keep DIR]

The tests are those that ``acf capture --tests`` writes, unedited.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from captured import BUNDLE, LIBRARY, build, capture, copied, machine_and_load

IDENTITY = ("-c", "user.name=A bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", default="10m", help="the night's budget, as of --tune-total (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=60, help="of the program (default: %(default)s)")
    parser.add_argument("--flags", default="-O2", help="of the program's library (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the project here, in a new directory")
    asked = parser.parse_args()
    print(machine_and_load(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = copied((asked.keep or Path(folder, "program")).absolute())
        (root / "pytest.ini").write_text("[pytest]\n")
        (root / ".gitignore").write_text("*.so\n*.npz\n__pycache__\n")
        build(root, asked.flags)
        program = (str(asked.frames), "--save", "found.npz")
        print(capture(root, "--share", "0.9999", "--tests", "tests", program=program))
        tune(root, asked.total)
        replay_and_check(root, asked.frames)
    print(machine_and_load())


def tune(root: Path, total: str) -> None:
    began = time.monotonic()
    printed(root, "pytest", "--tune", f"--tune-total={total}", lines=20)
    print(f"the night took {time.monotonic() - began:.0f} s")
    for command in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "Six kernels tuned"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    printed(root, "pytest_compileiq.cli", "list")


def replay_and_check(root: Path, frames: int) -> None:
    printed(root, "pytest", lines=12)
    program = (sys.executable, "program.py", LIBRARY, str(frames), "--expect", "found.npz")
    printed(root, "pytest_compileiq.cli", "capture", "--check", BUNDLE, "--", *program)
    subprocess.run(["git", "status", "--short"], cwd=root, check=True)


def printed(root: Path, *module: str, lines: int | None = None) -> None:
    """Run a module and show the last lines of what it printed, and its exit status."""
    done = subprocess.run([sys.executable, "-m", *module], cwd=root, capture_output=True, text=True, check=False)
    print(*(done.stdout + done.stderr).splitlines()[-(lines or 0) :], sep="\n")
    print(f"{' '.join(module)}: {done.returncode}\n", flush=True)


if __name__ == "__main__":
    main()
