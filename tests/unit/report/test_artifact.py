"""One artifact in words: what has hundreds of sources, and kernels with names of a thousand characters, is still read."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, CompilerTable, FingerprintTable
from pytest_compileiq.model import Licence
from pytest_compileiq.reduction import Without
from pytest_compileiq.report.artifact import artifact_lines, entry_texts, in_effect_text
from pytest_compileiq.report.committed import ChartedArtifact
from pytest_compileiq.report.html.page import render_page
from pytest_compileiq.rules.classes import Classed
from tests.unit.artifacts import make_artifact
from tests.unit.report.pages import make_run

NVCC = CompilerTable(name="nvcc", version="13.3", build="b", command=("nvcc", "k.cu"))
ARGUMENTS = "".join(f"{len(name)}{name}" for name in (f"stage_of_a_pipeline_{number}" for number in range(60)))
LONG = f"_Z6launchI4GemmIJ{ARGUMENTS}EEEvT_"
CODE = {LONG: CodePair(baseline=CodeTable(sha256="e" * 64), tuned=CodeTable(sha256="f" * 64))}


def test_a_long_symbol_is_told_by_its_name_and_of_many_sources_the_first_are():
    artifact = make_artifact(
        compiler=NVCC,
        code=CODE,
        fingerprint=FingerprintTable(
            benchmark="a" * 64, command="b" * 64, sources={f"include/{number:03}.h": "c" * 64 for number in range(200)}
        ),
    )
    lines = list(artifact_lines("k", artifact))
    (code,) = [line for line in lines if line.startswith("  code ")]
    assert code.split()[1].startswith("launch<Gemm<…") and len(code) < 200
    sources = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  source ")]
    assert (len(sources), sources[0], sources[-1]) == (21, "include/000.h cccccccc", "and 180 more")


def test_a_page_tells_a_long_symbol_by_its_name_too():
    report, committed = make_run("text")
    long = ChartedArtifact(make_artifact(compiler=NVCC, code=CODE), {})
    page = render_page(report, dict.fromkeys(committed, long), {"Python": "3"}, title="t")
    assert "launch&lt;Gemm&lt;…&gt; &gt;#" in page
    assert LONG not in page


def test_classes_are_told_in_effect_where_a_licence_widens_them():
    classed = Classed({"value-safe": ("-O2",)})
    assert in_effect_text(classed, ()) == "value-safe"
    licence = Licence("contraction", "relaxed-maths", "k.c:3", "-ffp-contract=off")
    assert in_effect_text(classed, [licence]) == "value-safe; in effect relaxed-maths"


@pytest.mark.parametrize(
    ("loss", "told"), [(0.1, "10.0% of its magnitude higher"), (-0.1, "10.0% of its magnitude lower")]
)
def test_a_loss_by_share_is_told_by_its_direction(loss, told):
    entry = Without(
        knobs=("-fa",), standing="measured", objective="error", direction="minimize", by_share=True,
        losses=(loss, loss), loss=loss, low=loss - 0.01, high=loss + 0.01,
    )  # fmt: skip
    assert entry_texts(entry) == (f"error: {told}", f"{loss - 0.01:.1%} to {loss + 0.01:.1%}")
