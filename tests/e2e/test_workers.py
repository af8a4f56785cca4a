"""A worker's pytest is configured as its parent is; one that does not get ready is no verdict on any controls."""

from __future__ import annotations

import json
import os

import pytest

from tests.forked import run_module
from tests.projects import Project

pytestmark = pytest.mark.slow

KERNEL_C = "int kernel(int x) { return x * 3 + 1; }\n"
SIZE_PY = """\
import pytest

from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("kernel.c", flags="-O1"), space={"-O": choice([2, 3])}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    acf.build()
"""
IN_WORKER = 'sys.argv[0].endswith("worker_plugin.py")'


def run(made: Project, *arguments: str, **environment: str) -> str:
    """Run pytest with all of the suite's own plugins; returns what it printed, its exit code last."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COMPILEIQ_"))}
    code, output = run_module("pytest", arguments, cwd=made.root, environment=kept | environment)
    assert "Traceback" not in output, output
    return f"{output}\nexit code {code}"


def tune(made: Project, *arguments: str, **environment: str) -> str:
    return run(made, "--tune", "--tune-budget=2", *arguments, **environment)


@pytest.mark.parametrize(
    "plugins",
    ["xdist", "randomly", "no:xdist", "rerunfailures cacheprovider stepwise terminal threadexception"],
)
def test_plugins_named_by_their_entry_points_work(project, plugins):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": SIZE_PY})
    output = tune(made, *(f"-p{name}" for name in plugins.split()))
    assert output.endswith("exit code 0"), output


@pytest.mark.parametrize("own", ["compileiq", "pytest_compileiq.plugin"])
def test_plugins_named_by_their_modules_work_where_none_is_loaded_by_itself(project, own):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": SIZE_PY})
    named = (own, "pytest_randomly", "pytest_rerunfailures", "xdist.plugin")
    output = tune(made, *(f"-p{name}" for name in named), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert output.endswith("exit code 0"), output


LOCAL_PLUGIN_PY = """\
import pytest


def pytest_addoption(parser):
    parser.addoption("--size", type=int, default=0)


@pytest.fixture
def size(request):
    return request.config.getoption("--size")
"""


@pytest.mark.parametrize("way", ["-p", "PYTEST_PLUGINS", "pytest_plugins"])
def test_a_plugin_of_the_project_reaches_the_workers_with_its_options(project, way):
    test = SIZE_PY.replace("def test_kernel(acf):", "def test_kernel(acf, size):\n    assert size == 7")
    conftest = 'pytest_plugins = ["local_plugin"]\n' if way == "pytest_plugins" else ""
    files = {"kernel.c": KERNEL_C, "test_kernel.py": test, "local_plugin.py": LOCAL_PLUGIN_PY, "conftest.py": conftest}
    named = ("-plocal_plugin",) if way == "-p" else ()
    environment = {"PYTEST_PLUGINS": "local_plugin"} if way == "PYTEST_PLUGINS" else {}
    output = tune(project(files), *named, "--size=7", **environment)
    assert output.endswith("exit code 0"), output


DEPENDENT_INI = """\
[pytest]
addopts = --strict-markers --strict-config
required_plugins = pytest-xdist pytest-rerunfailures pytest-randomly
cache_dir = .kept
console_output_style = classic
"""


def test_a_project_may_depend_on_plugins_that_workers_do_not_run(project):
    test = SIZE_PY.replace(
        "@pytest.mark.tune", '@pytest.mark.flaky(reruns=1)\n@pytest.mark.xdist_group("gpu")\n@pytest.mark.tune'
    )
    test = test.replace(
        "def test_kernel(acf):", 'def test_kernel(acf, worker_id, cache):\n    cache.set("here", worker_id)'
    )
    conftest = "def pytest_xdist_auto_num_workers(config):\n    return 1\n"
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": test, "conftest.py": conftest})
    (made.root / "pytest.ini").write_text(DEPENDENT_INI)
    output = tune(made)
    assert output.endswith("exit code 0"), output


FAULTS = {
    "its conftest cannot be imported": ("import missing_there", "No module named 'missing_there'"),
    "its conftest ends it": ("sys.exit('not without a display')", "SystemExit: not without a display"),
    "it is killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    "a hook fails": ("def pytest_collection_modifyitems(): raise RuntimeError('no room')", "RuntimeError: no room"),
    "the test is not there": ("def pytest_collection_modifyitems(items): items.clear()", "not collected in the worker"),
    "a fixture fails": (
        "import pytest; tmp_path = pytest.fixture(lambda: pytest.fail('the port is taken'))", "the port is taken",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_worker_that_does_not_get_ready_fails_the_search_and_says_why(project, what):
    code, said = FAULTS[what]
    conftest = f"import sys\n\nif {IN_WORKER}:\n    {code}\n"
    test = SIZE_PY.replace("test_kernel(acf)", "test_kernel(acf, tmp_path)")
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": test, "conftest.py": conftest})
    output = made.pytest("--tune", "--tune-budget=2", code=1)
    assert "no worker process gets ready to measure it, which says nothing about any controls: " in output
    assert said in output and "mend that and run the same command again" in output
    assert "baseline is not usable" not in output and not (made.root / "acf").exists()


def test_an_interpreter_that_runs_no_worker_fails_the_search_is_said_and_leaves_nothing(project, tmp_path, monkeypatch):
    (home := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(home))
    conftest = 'import sys\n\n\ndef pytest_collection_finish():\n    sys.executable = "/bin/false"\n'
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": SIZE_PY, "conftest.py": conftest})
    output = made.pytest("--tune", "--tune-budget=2", code=1, forked=False)
    assert "no worker process gets ready" in output and "exited with status 1" in output
    assert not [path for path in home.rglob("*") if path.suffix != ".lock"]


def test_a_worker_that_does_not_get_ready_refutes_no_claim(tuned):
    (tuned.root / "conftest.py").write_text(f"import sys\n\nif {IN_WORKER}:\n    import missing_there\n")
    output = tuned.pytest("--acf-report=report.json", code=1)
    (item,) = json.loads((tuned.root / "report.json").read_text())["items"]
    assert item["verdict"] == "NO WORKER" and item["failed"]
    assert "No module named 'missing_there'" in item["message"] and "No module named 'missing_there'" in output
    assert "run the same command again" in item["remedy"] and item["remedy"] in output
    assert "--tune" not in output and "REFUTED" not in output


TEARDOWN_PY = """\
import os
import sys

import pytest


@pytest.fixture
def crashing_at_its_end():
    yield
    if sys.argv[0].endswith("worker_plugin.py"):
        os._exit(1)
"""


def test_a_worker_that_ends_with_the_fixtures_of_one_test_is_replaced_for_the_next(project):
    first = SIZE_PY.replace("test_kernel(acf)", "test_first(acf, crashing_at_its_end)")
    second = SIZE_PY.replace("test_kernel", "test_second")
    files = {"kernel.c": KERNEL_C, "test_a.py": first, "test_b.py": second, "conftest.py": TEARDOWN_PY}
    assert "2 passed" in project(files).pytest("--tune", "--tune-budget=2", code=0)
