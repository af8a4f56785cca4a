"""What a node must have in common with its driver, by what it says itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_compileiq.ray import likeness
from pytest_compileiq.ray.likeness import here, why_unlike


def test_a_node_that_has_the_same_is_like_its_driver():
    assert why_unlike(here(), here()) is None


@pytest.mark.parametrize(("name", "there"), [("ray", "2.59.0"), ("pytest-compileiq", "none"), ("Python", "3.11.1")])
def test_a_node_with_another_version_is_told_with_both(name, there):
    own = {"Python": "3.11.7", "ray": "2.60.0", "pytest-compileiq": "0.1.0"}
    assert why_unlike({**own, name: there}, own) == f"it has {name} {there} (here {own[name]})"


def test_a_change_of_one_of_the_packages_files_tells_nodes_apart(tmp_path, monkeypatch):
    package = tmp_path / "pytest_compileiq"
    package.mkdir()
    (package / "__init__.py").write_text("'''One.'''")
    told = []
    for text in ("a = 1", "a = 2"):
        (package / "inner.py").write_text(text)
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(open({likeness.__file__!r}).read()); print(here())"
        told.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert told[0] != told[1]


def test_it_is_asked_by_value_so_that_a_node_without_this_package_can_answer():
    ray_pickle = pytest.importorskip("ray.cloudpickle", reason="no Ray: pip install 'pytest-compileiq[ray]'")
    ray_pickle.register_pickle_by_value(likeness)
    try:
        sent = ray_pickle.dumps(here)
    finally:
        ray_pickle.unregister_pickle_by_value(likeness)
    code = "import sys, pickle; sys.modules['pytest_compileiq'] = None; print(pickle.load(sys.stdin.buffer))"
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
