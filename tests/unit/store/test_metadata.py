"""An artifact's metadata as text, where more than one reading would do."""

from __future__ import annotations

import pytest

from pytest_compileiq.report.artifact import artifact_lines
from pytest_compileiq.store.metadata import parse, render
from tests.unit.artifacts import make_artifact


@pytest.mark.parametrize(
    ("licences", "in_effect", "line"),
    [((), "value-safe\n", b"licences = []\n"), (None, "value-safe; in effect opaque\n", b"")],
)
def test_that_nobody_looked_for_licences_is_told_apart_from_that_there_are_none(licences, in_effect, line):
    artifact = make_artifact(licences=licences)
    text = render(artifact)
    assert parse(text, "k.toml", "").licences == licences
    assert line in text and (b"licences" in text) is bool(line)
    lines = "\n".join(artifact_lines("k", artifact)) + "\n"
    assert f"  classes    {in_effect}" in lines
    unknown = (
        "unknown (opaque) by metadata without licences; pytest --tune --tune-budget=0 test_k.py::test_k takes it away"
    )
    assert (unknown in lines) is (licences is None)
