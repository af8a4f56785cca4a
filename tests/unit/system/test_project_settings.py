"""Where a project's further options belong, by the file that pytest has read."""

from __future__ import annotations

import pytest

from pytest_compileiq.system.project_settings import named_options


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("pytest.ini", "[pytest]\n", "acf_options = -fa -fb"),
        ("setup.cfg", "[metadata]\nname = k\n", "acf_options = -fa -fb"),  # read by nobody: pytest.ini is proposed
        ("pyproject.toml", "[project]\nname = 'k'\n", 'acf_options = ["-fa", "-fb"]'),
        ("pyproject.toml", "[tool.pytest]\nminversion = '9'\n", 'acf_options = ["-fa", "-fb"]'),
        (None, "", "acf_options = -fa -fb"),
    ],
)
def test_a_further_option_is_written_as_the_file_has_lists(tmp_path, name, text, line):
    file = None if name is None else tmp_path / name
    if file is not None:
        file.write_text(text)
    assert named_options(("-fa",), file).line_for("-fb") == line


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("setup.cfg", "[metadata]\nname = k\n", "[pytest] of pytest.ini"),
        ("tox.ini", "[pytest]\n", "[pytest] of tox.ini"),
        ("pyproject.toml", "[project]\nname = 'k'\n", "[tool.pytest.ini_options] of pyproject.toml"),
        ("pyproject.toml", "[tool.pytest]\nminversion = '9'\n", "[tool.pytest] of pyproject.toml"),
    ],
)
def test_its_place_is_the_section_that_pytest_reads(tmp_path, name, text, where):
    (tmp_path / name).write_text(text)
    assert named_options((), tmp_path / name).where == where
