"""The documentation does what it shows: every page is a script, run in the project that it builds up."""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from pytest_compileiq import rooms
from pytest_compileiq.cli.main import _parser
from pytest_compileiq.config import MARKER_ARGUMENTS
from pytest_compileiq.engines.registry import BUILT_IN
from pytest_compileiq.options import add_options
from tests.e2e.documents import ROOT, Page, compare, normal, perform, read_page

DOCS = ROOT / "docs"
SKILL = ROOT / "skills" / "pytest-compileiq" / "SKILL.md"
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = [read_page(path) for path in [*sorted(DOCS.rglob("*.md")), SKILL]]
PLACED = ("docs/tutorial/", "docs/how-to/", "skills/")
TEACHING = [page for page in PAGES if page.name.startswith(PLACED) and page.runs]


@pytest.fixture(scope="session")
def project_of(tmp_path_factory) -> Callable[[str], Path]:
    """The project that another page ends with; made once."""

    @cache
    def made(name: str) -> Path:
        return perform(read_page(ROOT / name), tmp_path_factory.mktemp("page"), made)

    return made


@pytest.mark.parametrize("page", TEACHING, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Page, project_of):
    project_of(page.name)


def test_every_tutorial_is_run():
    run = {page.name for page in TEACHING}
    assert {path.relative_to(ROOT).as_posix() for path in (DOCS / "tutorial").glob("*.md")} <= run


@pytest.mark.parametrize("page", TEACHING, ids=lambda page: page.name)
def test_what_is_not_run_says_why(page: Page):
    for block in page.blocks:
        told = block.language in ("console", "diff") or block.file or block.not_run or block.quoted
        assert told, f"{page.name}: a block that is no file and is not run:\n{block.text}"
    opening = re.findall(r"^```(\w*)", (ROOT / page.name).read_text(encoding="utf-8"), re.MULTILINE)[::2]
    assert all(opening), f"{page.name}: a block without a language"


def test_what_is_quoted_stands_there():
    quoted = [(page, block) for page in PAGES for block in page.blocks if block.quoted]
    assert quoted
    for page, block in quoted:
        held = (ROOT / block.quoted).read_text(encoding="utf-8")
        assert block.text in held, f"{page.name}: not in {block.quoted}:\n{block.text}"


def test_other_pages_show_no_command_as_if_it_were_run():
    others = [page.name for page in PAGES if page.runs and page not in TEACHING]
    assert not others, f"{others}: show commands where they are run, in a tutorial or a how-to"


@pytest.mark.parametrize(
    "word", ["proven faster", "5 passed in 2.31s", "wrote acf/k/gcc12-0d72c784.acf", "a  b", "about 280,000 in 8 h"]
)
def test_figures_digests_and_gaps_are_not_compared(word):
    other = word.replace("  ", "      ").replace("5", "7").replace("0d72c784", "12345678")
    compare("x", word, other.replace("280,000", "1,800,000"))


@pytest.mark.parametrize(
    ("shown", "printed"), [("1 passed", "1 failed"), ("a\nb", "a"), ("a", "a\nb"), ("a\n…\nc", "a\nb"), ("", "x")]
)
def test_words_and_lines_are_compared(shown, printed):
    with pytest.raises(AssertionError, match="shown"):
        compare("x", shown, printed)


def test_an_ellipsis_stands_for_any_text_or_any_lines():
    compare("x", "a … d\n…\nz", "a b c d\ne\nf\nz")
    compare("x", "…\nz", "z")
    assert normal("──────  x") == normal("───  x")


# ── the site ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_navigation_names_every_page_and_every_page_exists():
    listed = set(re.findall(r"[\w/-]+\.md", SITE.partition("nav:")[2]))
    here = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert listed == here


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings"))),
    reason="no mkdocs: pip install --group docs",
)
def test_the_site_builds_strictly(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site/reference/toolchains/index.html").read_text(encoding="utf-8")
    assert "relative to the test file" in reference, "the docstrings are not in it"


def test_the_reference_names_every_verb_and_option_of_the_command():
    text = (DOCS / "reference/command.md").read_text(encoding="utf-8")
    (verbs,) = (action for action in _parser(rooms.verbs())._actions if action.choices and action.metavar == "VERB")
    for verb, parser in verbs.choices.items():
        assert f"`acf {verb}" in text, verb
        for action in parser._actions:
            for option in action.option_strings[-1:]:
                assert option == "--help" or option in text, f"acf {verb}: {option}"


def declared_settings() -> MagicMock:
    parser = MagicMock()
    add_options(parser)
    return parser


def test_the_reference_names_every_setting():
    text = (DOCS / "reference/settings.md").read_text(encoding="utf-8")
    parser = declared_settings()
    options = parser.getgroup().addoption.call_args_list
    shown = [call for call in options if call.kwargs.get("help") != argparse.SUPPRESS]
    declared = [*shown, *parser.addini.call_args_list]
    assert len(declared) > 20
    for call in declared:
        assert f"`{call.args[0]}" in text, call.args[0]


def test_pages_name_no_option_of_pytest_that_it_does_not_have():
    parser = declared_settings()
    known = {call.args[0] for call in parser.getgroup().addoption.call_args_list} | {"--acf-dir"}  # the command's
    for path in [*sorted(DOCS.rglob("*.md")), SKILL, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        if "adr" not in path.parts:  # a decision may be about what was left out
            named = set(re.findall(r"(?<![\w-])--(?:tune|acf)[a-z-]*", path.read_text(encoding="utf-8")))
            assert named <= known, path.name


def test_the_reference_names_every_argument_of_the_marker_and_every_engine():
    for page, names in (("marker", MARKER_ARGUMENTS), ("engines", ["auto", *BUILT_IN])):
        text = (DOCS / f"reference/{page}.md").read_text(encoding="utf-8")
        for name in names:
            assert f"`{name}`" in text, f"{page}.md: {name}"


# ── the skill ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_skill_follows_the_convention():
    text = SKILL.read_text(encoding="utf-8")
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL).groups()
    keys = dict(line.split(": ", 1) for line in head.splitlines())
    assert set(keys) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert keys["name"] == SKILL.parent.name and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", keys["name"])
    assert 0 < len(keys["description"]) <= 1024 and "Use when" in keys["description"]
    assert len(keys["compatibility"]) <= 500
    assert len(text.splitlines()) < 200 and body.lstrip().startswith("# ")
