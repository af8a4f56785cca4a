"""How a kernel is found, and how its files are named in every checkout and environment."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.source import find_kernel
from tests.files import write_files

KERNEL = "from . import sizes\n@triton.jit\ndef kernel(x):\n    return x * sizes.ROWS\n"
FILES = {"norms/__init__.py": "raise SystemExit\n", "norms/rms.py": KERNEL, "norms/sizes.py": "ROWS = 4\n"}


@pytest.mark.parametrize("where", ["", "tests/", "src/"])
def test_a_module_of_the_project_is_named_relative_to_rootdir(tmp_path, where):
    write_files(tmp_path, {f"{where}{name}": text for name, text in FILES.items()} | {"tests/conftest.py": ""})
    place = Place(tmp_path / "tests", tmp_path)
    source = find_kernel("norms.rms:kernel", place)
    assert source.label == "norms.rms:kernel"
    assert list(source.sources()) == [f"{where}norms/rms.py", f"{where}norms/sizes.py"]


def test_a_module_of_an_installed_package_is_named_from_where_it_is_imported(tmp_path, monkeypatch):
    project, site = tmp_path / "project", tmp_path / "project" / ".venv" / "lib" / "site-packages"
    write_files(site, FILES)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    place = Place(project, project)
    assert list(find_kernel("norms.rms:kernel", place).sources()) == ["norms/rms.py", "norms/sizes.py"]
    assert "norms" not in sys.modules


def test_a_module_that_pytest_finds_by_its_settings_is_the_project_s(tmp_path, monkeypatch):
    write_files(tmp_path / "python", FILES)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "python")])
    place = Place(tmp_path, tmp_path)
    sources = find_kernel("norms.rms:kernel", place).sources()
    assert list(sources) == ["python/norms/rms.py", "python/norms/sizes.py"]


@pytest.mark.parametrize("name", ["01-add.py", "k.v2.py"])
def test_a_file_may_have_any_name(tmp_path, name):
    write_files(tmp_path, {f"t/{name}": "def kernel(): ...\n"})
    place = Place(tmp_path / "t", tmp_path)
    source = find_kernel(f"{name}::kernel", place)
    assert (source.label, list(source.sources())) == (f"t/{name}::kernel", [f"t/{name}"])
    assert source.parts()[source.module].statements


def test_a_file_of_a_package_is_a_module_of_it_so_that_its_imports_may_be_relative(tmp_path):
    plain = "@triton.jit\ndef kernel(x):\n    return x\n"
    write_files(tmp_path, FILES | {"loose/k.py": KERNEL, "norms/triton.py": plain, "norms/alone.py": plain})
    place = Place(tmp_path, tmp_path)
    source = find_kernel("norms/rms.py::kernel", place)
    assert (source.label, source.module) == ("norms/rms.py::kernel", "norms.rms")
    assert list(source.sources()) == ["norms/rms.py", "norms/sizes.py"]
    assert find_kernel("loose/k.py::kernel", place).module == "k"
    assert find_kernel("norms/triton.py::kernel", place).module == "norms.triton"
    assert find_kernel("norms/alone.py::kernel", place).module == "alone"
    assert find_kernel("rms.py::kernel", Place(tmp_path / "norms", tmp_path)).module == "norms.rms"


def test_an_empty_directory_hides_no_installed_package(tmp_path, monkeypatch):
    project, site = tmp_path / "project", tmp_path / "site-packages"
    write_files(site, FILES)
    write_files(project, {"norms/notes.txt": "", "src/others/k.py": "def kernel(): ...\n"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    place = Place(project, project)
    assert list(find_kernel("norms.rms:kernel", place).sources()) == ["norms/rms.py", "norms/sizes.py"]
    assert find_kernel("others.k:kernel", place).path == project / "src" / "others" / "k.py"
    with pytest.raises(MarkerError, match=r"there is no module others\.missing in "):
        find_kernel("others.missing:kernel", place)


def test_a_module_without_a_spec_is_no_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typed_in", ModuleType("typed_in"))  # as __main__ is, unless python -m began it
    with pytest.raises(EnvironmentFault, match="there is no package typed_in here"):
        find_kernel("typed_in:kernel", Place(tmp_path, tmp_path))


@pytest.mark.parametrize("name", ["k.py", "k.py:kernel", "k.py::", "k::a.b", "a..b:kernel", "a.b", "a.b:c.d", 3])
def test_what_names_no_kernel_says_how_one_is_named(tmp_path: Path, name):
    with pytest.raises(MarkerError, match=r"expected 'file\.py::function' or 'package\.module:function'"):
        find_kernel(name, Place(tmp_path, tmp_path))


@pytest.mark.parametrize(
    ("text", "is_jit_alone"),
    [
        ("@triton.jit\ndef kernel(x): ...\nkernel[1](x)\n", True),
        ("@jit(debug=True)\ndef kernel(x): ...\n", True),
        ("@autotune(configs)\n@jit(debug=True)\ndef kernel(x): ...\n", False),
        ("@tuners[0]\ndef kernel(x): ...\n", False),
        ("@triton.jit\ndef kernel(x): ...\nkernel = tuned(kernel)\n", False),
        ("from other import kernel\n", False),
        ("", False),
    ],
)
def test_triton_jit_alone_decides_a_launch_where_it_stands_at_the_only_definition(tmp_path, text, is_jit_alone):
    write_files(tmp_path, {"k.py": text})
    assert find_kernel("k.py::kernel", Place(tmp_path, tmp_path)).is_jit_alone == is_jit_alone
