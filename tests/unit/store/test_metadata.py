"""An artifact's metadata as text, where more than one reading would do."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable
from pytest_compileiq.claim import ConditionsTable
from pytest_compileiq.report.artifact import artifact_lines
from pytest_compileiq.store.metadata import parse, render
from tests.unit.artifacts import make_artifact, measured_claim
from tests.unit.report.pages import make_front


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


def test_a_default_is_left_out_but_for_the_fields_that_were_always_written():
    artifact = make_artifact()
    bare = artifact.controls.model_copy(update={"knobs": {}})
    conditions = ConditionsTable(launch="graph", l2="warm", empty_s=0.0, eager_ratio=1.5)
    artifact = artifact.model_copy(update={
        "controls": bare, "front": make_front()[:1], "code": {"k": CodePair(baseline=CodeTable(sha256="e" * 64))},
        "claims": (measured_claim("gpu").model_copy(update={"conditions": conditions}),),
    })  # fmt: skip
    text = render(artifact).decode()
    assert text.startswith("schema = 1\n")
    assert all(
        f"\n[{table}]\n" in text for table in ("controls.knobs", "front.controls.knobs", "code.k.baseline.metrics")
    )
    kept = 'launch = "graph"\nl2 = "warm"\nall_streams = false\nempty_s = 0.0\neager_ratio = 1.5\ndiluted = false\n'
    assert f"[claims.conditions]\n{kept}" in text
    assert not any(name in text for name in ("withdrawn", "functions", "environment", "held_by", "architecture_from"))
