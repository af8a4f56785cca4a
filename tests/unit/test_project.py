"""The project's own metadata by its text: versions, addresses and files that have to agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PEOPLE = ["SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "action.yml", ".pre-commit-hooks.yaml"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_pythons_of_classifiers_ci_and_requires_python_are_equal():
    supported = re.findall(
        r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE
    )
    (matrix,) = re.findall(r"^ +python: \[(.*)\]", text(".github/workflows/ci.yml"), re.MULTILINE)
    assert supported == re.findall(r"3\.\d+", matrix)
    assert PROJECT["requires-python"] == f">={supported[0]}"


def test_every_address_of_the_project_is_in_one_repository():
    repository = PROJECT["urls"]["Repository"]
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= set(PROJECT["urls"])
    assert all(url.startswith(repository) for url in PROJECT["urls"].values())
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.yml"), *map(ROOT.joinpath, PEOPLE)]
    named = {
        found
        for page in pages
        for found in re.findall(r"(?<![.\w-])[\w-]+/pytest-compileiq(?=[@/])", page.read_text("utf-8"))
    }
    assert named == {repository.removeprefix("https://github.com/")}


def test_versions_agree():
    assert f"\nversion: {PROJECT['version']}\n" in text("CITATION.cff")
    assert f"\n## {PROJECT['version']}" in text("CHANGELOG.md")


def test_the_pre_commit_hook_is_a_script_of_the_package():
    (entry,) = re.findall(r"entry: (\w+)", text(".pre-commit-hooks.yaml"))
    assert entry in PROJECT["scripts"]


def test_the_changelog_is_for_users_and_short():
    assert len(text("CHANGELOG.md").splitlines()) <= 40


def test_the_acfs_of_compileiq_are_named_by_their_licence_file():
    drawn = {
        path.parent.name for path in (ROOT / "acf").glob("*/*.toml") if re.search("^notice = ", path.read_text(), re.M)
    }
    licence = text("acf/LICENSE-ACF")
    assert drawn == set(re.search(r"\n\n(.*?)\n\n", licence, re.DOTALL)[1].replace(",", " ").split())
    assert "© NVIDIA Corporation, 2026." in licence
    assert "acf/LICENSE-ACF" in text("NOTICE")


def test_the_sdist_holds_the_package_and_no_data():
    sdist = pytest.importorskip("hatchling.builders.sdist", reason="hatchling is not installed: make test brings it")
    builder = sdist.SdistBuilder(str(ROOT))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    assert {"pytest_compileiq/plugin.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", *PEOPLE} <= packed
    assert not [name for name in packed if name.startswith((".ci/", "acf/", "bench/", "tests/", ".venv/"))]
