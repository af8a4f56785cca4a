"""``docs/explanation/gate.md`` gives a reader ten lines of numpy: they decide what the gate decided."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "gate.md"
TEN_LINES, OTHER_CONDITIONS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.M)
CLAIM = tomli.loads((ROOT / "acf/stencil/x86-64-v3-gcc12.toml").read_text(encoding="utf-8"))["claims"][0]


@pytest.fixture
def redone(monkeypatch):
    """The page's names after its lines ran in the repository's root."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for lines in (TEN_LINES, OTHER_CONDITIONS):
        exec(compile(lines, str(PAGE), "exec", dont_inherit=True), names)
    return names


def test_ten_lines_are_ten():
    statements = [each for each in ast.parse(TEN_LINES).body if not isinstance(each, ast.Import | ast.ImportFrom)]
    assert len(statements) == 10


def test_ten_lines_of_numpy_redo_the_committed_speed_up_and_its_interval(redone):
    for name in ("speedup", "speedup_low", "speedup_high"):
        assert redone[name] == pytest.approx(CLAIM[name], rel=1e-6), name
    assert redone["welch"] <= CLAIM["p_value"] * (1 + 1e-6), "the recorded p-value is the largest of three"


def test_the_other_conditions_redo_the_committed_effect_p_value_and_verdict(redone):
    assert redone["d"] == pytest.approx(CLAIM["cohens_d"], rel=1e-6)
    assert redone["p_value"] == pytest.approx(CLAIM["p_value"], rel=1e-6)
    assert redone["proven"]


def test_the_page_needs_nothing_of_this_package_to_redo_a_verdict():
    assert "pytest_compileiq" not in TEN_LINES + OTHER_CONDITIONS


def test_the_page_shows_figures_that_exist():
    figures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert figures
    for figure in figures:
        assert (PAGE.parent / figure).read_text(encoding="utf-8").lstrip().startswith("<?xml"), figure
