"""Hostile stores under a real project: its kernel is built and replayed by pytest, whatever lies beside it."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tomli

from pytest_compileiq.store.metadata import samples_file_name
from pytest_compileiq.store.samples import decode_samples
from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.fuzz import stores
from tests.fuzz.drafts import Draft, finished
from tests.fuzz.trees import Tree
from tests.fuzz.watch import PYTEST_CODES, Report, Violation, run_pytest
from tests.projects import make_project


def run(home: Path, seed: int, first: int, wanted: int, told: Callable[[Report], None] = lambda _: None) -> Report:
    """``wanted`` distinct stores through pytest, half of them as on GitHub, half of those with both reports."""
    project = home / "project"
    make_project(project, {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY})
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tune", "--tune-budget=6"], cwd=project, check=True, stdout=subprocess.DEVNULL
    )  # fmt: skip
    tuned, temporary = _draft_of(project / "acf" / "kernel"), home / "tmp"
    (home / "outside").mkdir()
    (home / "outside" / "canary").write_text("secret")
    report, number = Report(), first
    while len(report.stores) < wanted:
        tree = make(seed, number, tuned)
        if tree.digest not in report.stores:
            report.stores.add(tree.digest)
            _try(project, number, tree, temporary, report)
            told(report)
        number += 1
    return report


def make(seed: int, number: int, tuned: Callable[[], Draft]) -> Tree:
    """The store of one number: the project's own artifact, changed; a third of them with a neighbour."""
    pick = random.Random(f"{seed}/pytest/{number}")
    draft, tree = tuned(), Tree()
    for _ in range(pick.choice((1, 1, 2, 3))):
        stores.change(pick.choice(stores.MUTATIONS), pick, draft, tree)
    return Tree(finished(pick, draft).files | tree.files)


def _draft_of(folder: Path) -> Callable[[], Draft]:
    (path,) = folder.glob("*.toml")
    text = path.read_text()
    content = tomli.loads(text)
    data = (folder / content["claims"][0]["samples"]).read_bytes()
    assert samples_file_name(path.stem, data) == content["claims"][0]["samples"]
    samples = decode_samples(data, "samples")
    controls = (folder / content["controls"]["file"]).read_bytes()

    def draft() -> Draft:
        rows = [row for key in samples.measured() for row in samples.rows(key)]
        return Draft("kernel", path.stem, tomli.loads(text), controls, rows)

    return draft


def _try(project: Path, number: int, tree: Tree, temporary: Path, report: Report) -> None:
    shutil.rmtree(project / "acf", ignore_errors=True)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    tree.write(project / "acf")
    before = _beside(project)
    arguments = ["-p", "no:cacheprovider", "-rA", "--acf-check=replay"]
    arguments += ["--acf-report=report.json", "--acf-html=page.html", "--junitxml=junit.xml"] if number % 4 < 2 else []
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
        "GITHUB_WORKSPACE": str(project),
    }
    call = run_pytest(project, arguments, temporary, **(github if number % 2 else {}))
    report.take(number, call, PYTEST_CODES)
    if not re.search("^=+ acf =+$", call.output, re.MULTILINE):
        report.violations.append(Violation(number, call.argv, f"no summary: {call.output[-300:]}"))
    if _beside(project) != before or sorted(path.name for path in temporary.iterdir()) not in ([], ["summary.md"]):
        report.violations.append(Violation(number, call.argv, f"left behind: {sorted(map(str, temporary.iterdir()))}"))


def _beside(project: Path) -> list[tuple[str, bytes]]:
    """Every file of the project and beside it, but for the store, the reports and what Python compiles."""
    mine = ("report.json", "page.html", "junit.xml")
    found = []
    for folder, folders, names in os.walk(project.parent):
        folders[:] = [one for one in folders if one not in ("acf", "tmp", "__pycache__")]
        found += [
            (f"{folder}/{name}", Path(folder, name).read_bytes())
            for name in sorted(names)
            if name not in (*mine, "said")
        ]
    return sorted(found)
