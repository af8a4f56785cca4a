"""pytest's own manners hold: however it selects, orders, spreads or shows tests, a tuned test is a test like another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import run_module
from tests.projects import make_project
from tests.repository import git

SUM_C = """\
unsigned sum(const unsigned *x, int n) {
    unsigned total = 0;
    for (int i = 0; i < n; i++)
        total += x[i] * STEP;
    return total;
}
"""
HEAD = "import pytest\nfrom pytest_compileiq import Cc, choice, minimize\n\n"
MARK = '@pytest.mark.tune(Cc("sum.c", flags="-O3 -DSTEP={step}"), space={{"-O": choice(["s"])}}, objectives=[minimize("code_bytes")])\n'
BODY = "    assert acf.build().load().sum(None, 0) == 0\n"
ONE_PY = f"{HEAD}{MARK.format(step=3)}def test_alpha(acf):\n{BODY}"
MANY_PY = f"""\
{HEAD}
class TestMany:
    @pytest.mark.parametrize("first", [0, 1])
    {MARK.format(step=5)}    def test_many(self, acf, first):
        assert acf.build().load().sum(None, -first) == 0


def test_untuned():
    pass
"""
NAMES = {"alpha", "Many-many-0", "Many-many-1"}
ORPHANS_FAIL = ("-o", "acf_orphans=fail")
PLUGINS = {
    "-n": "xdist",
    "--randomly": "randomly",
    "--reruns": "rerunfailures",
    "--hypothesis": "hypothesispytest",
    "--anyio": "anyio",
}
PYTEST = (sys.executable, "-m", "pytest")
# Root writes where it may not; without CAP_DAC_OVERRIDE (1) in its bounding set (PR_CAPBSET_DROP, 24) it does not.
DROPPING = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
UNPRIVILEGED = (sys.executable, "-c", DROPPING, *PYTEST)


def run(
    root: Path, *arguments: str, code: int, env: dict[str, str] | None = None, argv: tuple[str, ...] = PYTEST
) -> str:
    """Run pytest as a user would, with the plugins that the arguments ask for; returns what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COMPILEIQ_"))}
    unasked = [plugin for option, plugin in PLUGINS.items() if not any(one.startswith(option) for one in arguments)]
    options = [*arguments, *(f"-pno:{plugin}" for plugin in unasked)]
    if argv == PYTEST:
        given, output = run_module("pytest", options, cwd=root, environment=environment | (env or {}))
    else:
        done = subprocess.run(
            [*argv, *options], cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        given, output = done.returncode, done.stdout + done.stderr
    assert "Traceback" not in output and "INTERNALERROR" not in output, output
    assert given == code, f"exit code {given}, expected {code}\n{output}"
    return output


def verdicts(root: Path, *arguments: str, code: int = 0, **how) -> dict[str, str]:
    """Name → verdict of every item that the JSON report of a run has."""
    run(root, "--acf-report=report.json", *arguments, code=code, **how)
    items = json.loads((root / "report.json").read_text())["items"]
    assert len(items) == len({item["name"] for item in items}), "one item is reported twice"
    return {item["name"]: item["verdict"] for item in items}


def stored(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / "acf").rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def _manners_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The project that each test finds, and where: a build cache holds where its project lies."""
    files = {"sum.c": SUM_C, "test_one.py": ONE_PY, "test_many.py": MANY_PY}
    root = make_project(tmp_path_factory.mktemp("manners") / "project", files).root
    output = run(root, "--tune", "--tune-budget=2", code=0)
    assert "3 tuned" in output
    assert "3 proven" in run(root, code=0)
    return Path(shutil.copytree(root, root.parent / "as it was")), root


@pytest.fixture
def scratch(_manners_once: tuple[Path, Path]) -> Path:
    """A project with three tuned tests, as it was."""
    as_it_was, root = _manners_once
    if root.exists():
        for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        shutil.rmtree(root)
    return Path(shutil.copytree(as_it_was, root))


@pytest.fixture
def root(scratch: Path) -> Iterator[Path]:
    """The copy, and whatever a test runs there, no artifact is lost or altered."""
    before = stored(scratch)
    yield scratch
    assert {name: data for name, data in stored(scratch).items() if name in before} == before


@pytest.fixture
def with_orphan(root: Path) -> Path:
    """The project with an artifact more, that no test claims."""
    shutil.copytree(root / "acf/alpha", root / "acf/orphan")
    return root


@pytest.fixture
def with_stale(root: Path) -> Path:
    """The project with one stale artifact of three."""
    path = root / "test_one.py"
    path.write_text(path.read_text().replace("STEP=3", "STEP=7"))
    return root


# ── which tests run ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_complete_run_proves_every_artifact_and_calls_the_orphan_one(with_orphan):
    assert verdicts(with_orphan, *ORPHANS_FAIL, code=11) == dict.fromkeys(NAMES, "PROVEN")
    output = run(with_orphan, code=0)
    assert "orphaned, no test claims them: orphan" in output and "3 proven" in output


PARTIAL = {
    "-k": (("-k", "alpha"), {"alpha"}),
    "-k that leaves no tuned test": (("-k", "untuned"), set()),
    "a node id with a class and a parameter": (("test_many.py::TestMany::test_many[1]",), {"Many-many-1"}),
    "a file": (("test_many.py",), {"Many-many-0", "Many-many-1"}),
    "--deselect": (("--deselect", "test_one.py"), {"Many-many-0", "Many-many-1"}),
    "--ignore": (("--ignore", "test_one.py"), {"Many-many-0", "Many-many-1"}),
    "a plugin that deselects": (("-p", "leave_out"), {"alpha"}),
    "a plugin that deselects, under xdist": (("-p", "leave_out", "-n", "2"), {"alpha"}),
}
LEAVE_OUT = """\
def pytest_collection_modifyitems(config, items):
    left = [item for item in items if "alpha" not in item.name]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
"""


@pytest.mark.parametrize("how", PARTIAL)
def test_a_partial_run_judges_what_it_selects_and_calls_nothing_an_orphan(with_orphan, how):
    (with_orphan / "leave_out.py").write_text(LEAVE_OUT)
    arguments, names = PARTIAL[how]
    output = run(with_orphan, "--acf-report=report.json", *ORPHANS_FAIL, *arguments, code=0)
    assert "orphan" not in output.replace("acf_orphans", "")
    if names:
        report = json.loads((with_orphan / "report.json").read_text())
        assert {item["name"]: item["verdict"] for item in report["items"]} == dict.fromkeys(names, "PROVEN")
        assert report["orphans"] == []


def test_collecting_only_builds_nothing_and_judges_nothing(with_orphan):
    (with_orphan / "acf/orphan/stray").write_text("")
    output = run(with_orphan, "--co", "-q", *ORPHANS_FAIL, env={"PATH": "/nonexistent"}, code=0)
    assert "test_many.py::TestMany::test_many[1]" in output and "orphan" not in output


def test_exit_first_ends_with_the_stale_item_and_calls_nothing_an_orphan(with_orphan):
    path = with_orphan / "test_many.py"
    path.write_text(path.read_text().replace("STEP=5", "STEP=7"))
    assert verdicts(with_orphan, "-x", *ORPHANS_FAIL, code=1) == {"Many-many-0": "STALE"}
    assert json.loads((with_orphan / "report.json").read_text())["orphans"] == []


def test_last_failed_runs_the_stale_item_alone_until_it_is_mended(with_stale):
    assert verdicts(with_stale, code=1) == {"alpha": "STALE", "Many-many-0": "PROVEN", "Many-many-1": "PROVEN"}
    assert verdicts(with_stale, "--lf", code=1) == {"alpha": "STALE"}
    path = with_stale / "test_one.py"
    path.write_text(path.read_text().replace("STEP=7", "STEP=3"))
    assert verdicts(with_stale, "--lf", *ORPHANS_FAIL) == {"alpha": "PROVEN"}


# ── how they run ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_four_workers_give_the_verdicts_of_one(with_orphan):
    assert verdicts(with_orphan, "-n", "4", *ORPHANS_FAIL, code=11) == dict.fromkeys(NAMES, "PROVEN")


def test_tuning_with_workers_is_a_usage_error(root):
    assert "--tune does not run under xdist: add -n 0" in run(root, "--tune", "-n", "2", code=4)


def test_random_order_gives_the_same_verdicts(root):
    pytest.importorskip("pytest_randomly")
    for seed in ("1", "2"):
        assert verdicts(root, f"--randomly-seed={seed}") == dict.fromkeys(NAMES, "PROVEN")


def test_an_item_that_is_run_again_is_reported_once_by_its_last_verdict(with_stale):
    pytest.importorskip("pytest_rerunfailures")
    found = verdicts(with_stale, "--reruns=1", code=1)
    assert found == {"alpha": "STALE", "Many-many-0": "PROVEN", "Many-many-1": "PROVEN"}


def test_an_item_that_passes_when_run_again_is_reported_as_passed(root):
    pytest.importorskip("pytest_rerunfailures")
    path = root / "test_one.py"
    flaky = "    import pathlib\n    mark = pathlib.Path('ran-before')\n"
    path.write_text(path.read_text().replace(BODY, f"{BODY}{flaky}    assert mark.exists() or mark.touch()\n"))
    lenient = ("-o", "acf_stale=warn")  # the body is another one now
    assert verdicts(root, "--reruns=1", *lenient) == {
        "alpha": "STALE",
        "Many-many-0": "PROVEN",
        "Many-many-1": "PROVEN",
    }


def test_without_a_terminal_the_verdicts_and_exit_codes_are_the_same(with_orphan):
    assert verdicts(with_orphan, "-p", "no:terminal", *ORPHANS_FAIL, code=11) == dict.fromkeys(NAMES, "PROVEN")


def test_tuning_without_a_terminal_finishes(scratch):
    assert verdicts(scratch, "-p", "no:terminal", "--tune", "--tune-budget=2", "-k", "alpha") == {"alpha": "PROVEN"}


# ── where they run ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_read_only_checkout_is_checked_and_tuning_there_is_one_sentence(root):
    shutil.rmtree(root / ".compileiq", ignore_errors=True)  # a checkout has none
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        folder.chmod(0o555)
    before = sorted(root.rglob("*"))
    assert "3 proven" in run(root, code=0, argv=UNPRIVILEGED)
    output = run(root, "--tune", "--tune-budget=2", "-k", "alpha", code=1, argv=UNPRIVILEGED)
    assert ".compileiq cannot be made: Permission denied" in output
    assert sorted(root.rglob("*")) == before


def test_without_git_a_stale_artifact_is_named_without_commits(with_stale, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not tool.name.startswith("git") and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    output = run(with_stale, env={"PATH": str(tools)}, code=1)
    assert "1 stale" in output and "2 proven" in output and "since then" not in output


@pytest.mark.slow
def test_a_shallow_clone_checks_what_it_has_and_names_no_commit_that_it_lacks(scratch, tmp_path):
    git(scratch, "init", "-q")
    git(scratch, "add", ".")
    git(scratch, "commit", "-qm", "All")
    run(scratch, "--tune", "--tune-budget=0", "-k", "alpha", code=0)
    (scratch / "sum.c").write_text(SUM_C.replace("* STEP", "* STEP * 2"))
    git(scratch, "commit", "-qam", "Twice the sum")
    git(tmp_path, "clone", "-q", "--depth=1", scratch.as_uri(), "clone")
    assert "(since then: " in run(scratch, "-k", "alpha", code=1)
    output = run(tmp_path / "clone", code=1)
    assert "sum.c (changed)" in output and "3 stale" in output and "since then" not in output


WINDOWS = {
    "the test": ('benchmark = "test_one.py', 'benchmark = "tests\\\\test_one.py', 1, r"was made for tests\test_one.py::test_alpha"),
    "a source": ('"sum.c" =', '"kernels\\\\sum.c" =', 0, r"kernels\sum.c (no longer read), sum.c (added): the machine code is the same"),
    "the controls": ('file = "', 'file = "alpha\\\\', 1, "controls.file = "),
}  # fmt: skip


@pytest.mark.parametrize("which", WINDOWS)
def test_a_stored_path_of_windows_is_one_sentence(scratch, which):
    (path,) = (scratch / "acf/alpha").glob("*.toml")
    old, new, code, said = WINDOWS[which]
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert said in run(scratch, "-k", "alpha", code=code)


@pytest.mark.slow
def test_spaces_and_other_scripts_in_paths_change_nothing(scratch, tmp_path):
    home = scratch.rename(tmp_path / "größe $x 'n # ядро")
    assert verdicts(home) == dict.fromkeys(NAMES, "PROVEN")
    kernels = home / "my kernels"
    kernels.mkdir()
    (home / "test_one.py").rename(kernels / "test_öne.py")
    (kernels / "sum.c").write_text('#include "häder file.h"\n' + SUM_C)
    (kernels / "häder file.h").write_text("#define TIMES *\n")
    shutil.rmtree(home / "acf/alpha")
    assert verdicts(home, "--tune", "--tune-budget=2", "my kernels") == {"alpha": "TUNED"}
    assert verdicts(home) == dict.fromkeys(NAMES, "PROVEN")
    (kernels / "häder file.h").write_text("#define STEP 4\n")
    assert "my kernels/häder file.h (changed)" in run(home, code=1)


def test_a_directory_with_a_rootdir_of_its_own_has_a_store_of_its_own(with_orphan):
    inner = with_orphan / "inner"
    inner.mkdir()
    (inner / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef start():\n    return None\n")
    (inner / "pytest.ini").write_text("[pytest]\nacf_dir = tuned controls\n")
    (inner / "sum.c").write_text(SUM_C)
    (inner / "test_one.py").write_text(ONE_PY.replace("(acf)", "(acf, start)").replace("None, 0", "start, 0"))
    assert "1 tuned" in run(with_orphan, "--tune", "--tune-budget=2", "inner", code=0)
    assert (inner / "tuned controls/alpha").is_dir()
    assert verdicts(inner, *ORPHANS_FAIL) == {"alpha": "PROVEN"}
    output = run(with_orphan, "inner", *ORPHANS_FAIL, code=0)
    assert "1 proven" in output and "orphan, no test" not in output
