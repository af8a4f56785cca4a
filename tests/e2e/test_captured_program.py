"""A numpy program with six C kernels: captured, ranked, tuned in one night, committed, replayed, checked, validated.

The program is bench/captured_program, on small pictures; bench/captured_night.py does the same for time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.files import write_files
from tests.projects import UNREDUCED_INI, Project
from tests.repository import git

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "bench/captured_program"
KERNELS = {"gather", "stencil", "branchy", "ragged", "histogram", "reduction"}
RUN = ("--", sys.executable, "program.py", "kernels.so", "9", "--shrink", "4")
# What decides is counted, and not timed: the smallest code of four builds.
BY_COUNTS = """\
    objectives=[minimize("code_bytes")],
    space={"-O": choice([1, 2, "s"], knockout_prob=0.5)},
    workloads={"""


def test_a_program_is_captured_tuned_in_one_night_committed_replayed_and_checked(tmp_path):
    project = made(tmp_path / "project")
    output = project.acf("capture", "--share", "0.9999", "--tests", "tests", *RUN, "--save", "found.npz")
    assert "6 functions of 1 library took" in output
    assert set(re.findall(r"^wrote tests/test_(\w+)\.py$", output, re.MULTILINE)) == KERNELS
    assert set(re.findall(r"^(\w+) +2 +\d of 12 .* exact$", output, re.MULTILINE)) == KERNELS
    assert "6 passed" in project.pytest("--acf-check=off", code=0)

    for test in (project.root / "tests").glob("*.py"):
        project.edit(str(test), "import Captured", "import Captured, choice, minimize")
        project.edit(str(test), "    workloads={", BY_COUNTS)
    output = project.pytest("--tune", "--tune-total=60", code=0)
    assert re.search(r"night: \d+ of 60 evaluations; 6 closed; done", output), output
    assert set(re.findall(r"^(\w+) +\S+ +tuned +code_bytes", project.acf("list"), re.MULTILINE)) == KERNELS

    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "Six kernels tuned on the calls that the program makes")
    output = project.pytest(code=0)
    assert "6 passed" in output
    assert "the program calls what acf-capture holds" in project.acf(
        "capture", "--check", "acf-capture", *RUN, "--expect", "found.npz"
    )
    assert git(project.root, "status", "--porcelain") == ""  # the program's data stayed out

    output = project.acf("capture", "--validate", "acf-capture", *RUN, "--expect", "found.npz")
    assert (
        set(re.findall(r"^(\w+): python program\.py kernels\.so 9 .* confirms it on ", output, re.MULTILINE)) == KERNELS
    )
    assert output.count("none differs; the same output") == 6
    assert "6 passed" in project.pytest(code=0)


def made(root: Path) -> Project:
    """The program in a repository of its own, with its library built."""
    shutil.copytree(PROGRAM, root, ignore=shutil.ignore_patterns("__pycache__"))
    write_files(root, {"pytest.ini": UNREDUCED_INI, ".gitignore": "*.so\n*.npz\n__pycache__\n"})
    sources = [path.name for path in sorted(root.glob("*.c"))]
    subprocess.run(["gcc", "-O3", "-g", "-shared", "-fPIC", *sources, "-o", "kernels.so"], cwd=root, check=True)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "A program and its kernels")
    return Project(root)
