"""Where workers may be asked for, and what is refused in a sentence; tests/cluster has real clusters."""

from __future__ import annotations

import re

import pytest

from tests.examples import SUM_C

SIZE_PY = """\
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("sum.c", flags="-O1"), objectives=[minimize("code_bytes")])
def test_total(acf):
    acf.build()
"""


@pytest.fixture
def made(project):
    return project({"sum.c": SUM_C, "test_sum.py": SIZE_PY})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tune --tune-on=ray://head:10001", r"is Ray's client.*give the HOST:PORT that ray start --head printed"),
        ("--tune --tune-on=head", "expected ray, or the HOST:PORT of a Ray cluster"),
        ("--tune-on=ray", "--tune-on says where --tune has its workers: add --tune"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_a_sentence(made, words, said):
    assert re.search(said, made.pytest(*words.split(), code=4))


def test_a_ray_job_is_refused_since_its_copy_of_the_project_is_thrown_away(made, monkeypatch):
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert "acf/ would be lost with it" in made.pytest("--tune", "--tune-on=ray", code=4)


def test_without_ray_the_extra_is_named(made):
    made.root.joinpath("conftest.py").write_text('import sys\nsys.modules["ray"] = None\n')
    output = made.pytest("--tune", "--tune-on=ray", "--tune-budget=4", code=1)
    assert "--tune-on needs Ray: pip install 'pytest-compileiq[ray]'" in output
