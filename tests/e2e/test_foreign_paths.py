"""What an artifact names is read inside its project alone; odd names under ``acf/`` cost nobody a report."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.artifact import FingerprintTable
from pytest_compileiq.cli.main import main
from pytest_compileiq.store.metadata import render
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact

NOT_UTF_8 = os.fsdecode(b"caf\xe9")


@pytest.fixture
def claiming(tmp_path, monkeypatch):
    """A project, in a directory beside a secret, whose artifact says that it was made of the given sources."""
    home = tmp_path / "project"
    (tmp_path / "secret").write_text("s")
    home.mkdir()
    (home / "pytest.ini").write_text("[pytest]\n")
    (home / "test_k.py").write_text("")
    os.mkfifo(home / "pipe")
    (home / "out").symlink_to(tmp_path)
    monkeypatch.chdir(home)
    store = Store(home / "acf")
    store.write("k", make_artifact(), controls=[CONTROLS], samples=())

    def claim(*sources: str) -> None:
        digests = dict.fromkeys(sources, "c" * 64)
        made = make_artifact(fingerprint=FingerprintTable(benchmark="a" * 64, command="b" * 64, sources=digests))
        store.metadata_path("k", TARGET).write_bytes(render(made))

    return claim


SOURCES = {
    "/dev/zero": "lies outside the project",
    "/dev/stdin": "lies outside the project",
    "../secret": "lies outside the project",
    "out/secret": "lies outside the project",
    "pipe": "is no regular file",
    "acf": "is no regular file",
    "x\0y": "is no path",
    "x" * 2000: "cannot be read: File name too long",
    "x" * 1990 + ".py": "cannot be read: File name too long",
    "huge": "at most 67108864 are read",
}


@pytest.mark.parametrize("source", SOURCES)
def test_flags_and_export_read_regular_files_inside_the_project_alone(claiming, capsys, source):
    if source == "huge":
        Path("huge").touch()
        os.truncate("huge", 1 << 40)
    claiming(source)
    for verb in (["flags", "k", "--compiler", "gcc"], ["export", "--runtime", "runtime"]):
        if verb[0] == "flags" and not shutil.which("gcc"):
            continue
        capsys.readouterr()
        assert main(verb) == 3
        captured = capsys.readouterr()
        assert SOURCES[source] in captured.err and "is stale" in captured.err and not captured.out


def test_the_project_of_an_artifact_is_not_looked_for_beyond_its_repository(claiming, capsys, tmp_path):
    claiming("secret")
    (tmp_path / "project" / "test_k.py").unlink()
    assert main(["export", "--runtime", "runtime"]) == 3
    assert "secret (is missing)" in capsys.readouterr().err


def test_a_file_with_many_names_is_read_once(claiming, capsys, tmp_path, monkeypatch):
    (tmp_path / "project" / "here").symlink_to(".")
    (tmp_path / "project" / "k.c").write_text("int k;")
    claiming(*("here/" * depth + "k.c" for depth in range(200)))
    opened = []
    really_open = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **more: opened.append(str(path)) or really_open(path, *rest, **more)
    )
    assert main(["export", "--runtime", "runtime"]) == 3
    assert sum(path.endswith("k.c") for path in opened) == 1


def test_a_name_that_is_not_utf_8_is_told_in_every_report(tuned):
    (tuned.root / "acf" / NOT_UTF_8).mkdir()
    (tuned.root / "acf" / "kernel" / NOT_UTF_8).write_text("stray")
    output = tuned.pytest("--acf-check=replay", "--acf-report=report.json", "--acf-html=page.html", code=11)
    assert "unhealthy: acf/caf\\udce9 is no artifact's directory" in output and "1 passed" in output
    assert "caf\udce9" in json.loads((tuned.root / "report.json").read_text())["store_problems"][0]
    assert "caf\\udce9" in (tuned.root / "page.html").read_text()
    for code, verb in ((0, ["list"]), (1, ["check"]), (0, ["show", "kernel"]), (1, ["report", "page.html"])):
        tuned.acf(*verb, code=code)


MISSING_PY = """
import pytest
from pytest_compileiq import Cc

@pytest.mark.tune(Cc("k.c", flags="-O1 -march=x86-64-v3"), name="k")
def test_missing(acf):
    acf.build()
"""


@pytest.mark.parametrize("command", ["pytest", "acf"])
def test_a_page_that_cannot_be_written_leaves_nothing_and_costs_no_summary(project, command):
    made = project(
        {"test_it.py": MISSING_PY, "k.c": "int k(void) { return 1; }\n", "acf/k/notes.txt": "", "page.html": "old"}
    )
    argv = {
        "pytest": "pytest -p no:cacheprovider --acf-html=page.html",
        "acf": "pytest_compileiq.cli report page.html",
    }[command]  # fmt: skip
    # No file of more than 8 KiB can be written here, as on a disk that is full.
    limited = f"ulimit -f 8; exec {shlex.quote(sys.executable)} -B -m {argv}"
    done = subprocess.run(["bash", "-c", limited], cwd=made.root, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert "page.html" in said and "File too large" in said and "Traceback" not in said, said
    assert ("MISSING" in said) == (command == "pytest")
    assert (made.root / "page.html").read_text() == "old" and not list(made.root.glob(".partial-*"))
