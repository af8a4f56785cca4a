"""What is learned of options from a corpus: what was planted there comes out, and -Os hides nothing."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from learn_corpus import METRICS, Measured
from learn_effects import KINDS, OPTIONS, SMALL, SPACE, foretold, learned, tasks, write
from learn_search import taught_without
from pytest_compileiq.engines.ga.experience import Experience
from pytest_compileiq.engines.ga.points import PointSpace
from race_objectives import gcc_space

UNROLL, VECTORS = OPTIONS.index(("-funroll-loops", "")), OPTIONS.index(("-ftree-vectorize", ""))


def source(seed: int) -> Measured:
    """A kernel that unrolling makes larger, but for ``-Os``, and faster; at ``-Os`` vectors make it larger."""
    rng = np.random.default_rng(seed)
    points = PointSpace(SPACE).draw(rng, 240)
    names = [gene.name for gene in SPACE.genes]
    small = points[:, names.index("-O")] == list(SPACE.genes[names.index("-O")].values).index("s")
    unroll, vectors = (points[:, names.index(name)] >= 0 for name in ("-funroll-loops", "-ftree-vectorize"))
    size = 0.1 * (unroll & ~small) + 0.1 * (vectors & small) - 0.3 * small + rng.normal(0, 0.01, size=240)
    time = -0.2 * unroll + 0.5 * small + rng.normal(0, 0.02, size=240)
    return Measured(f"source {seed}", points, np.stack([size, np.full(240, np.nan), time], axis=1))


SOURCES = [source(seed) for seed in range(6)]


def test_what_was_planted_is_learned_by_kind():
    effects = {kind: learned(tasks(SOURCES, kind)) for kind in KINDS}
    assert effects["size"][UNROLL] > 1.2 > 0.2 > abs(effects["size"][VECTORS])
    assert effects["size at -Os"][VECTORS] > 0.8 > 0.4 > abs(effects["size at -Os"][UNROLL])
    assert effects["speed"][UNROLL] < -1.2
    assert effects["size"][SMALL] == -3 < 2 < effects["speed"][SMALL]


def test_a_metric_that_nobody_measured_is_no_task():
    assert METRICS[1] == "executed"
    assert len(tasks(SOURCES, "speed")) == len(SOURCES)


def test_the_others_foretell_what_was_not_told():
    every = tasks(SOURCES, "speed")
    told, others = np.arange(1), np.arange(1, len(every[0].scores))
    expected = foretold(every[0], told, others, learned(every[1:]))
    assert np.corrcoef(expected, every[0].scores[others])[0, 1] > 0.9
    assert np.ptp(foretold(every[0], told, others, None)) == pytest.approx(0)


def test_the_table_has_a_row_an_option_and_a_column_a_kind(tmp_path):
    path = tmp_path / "table.csv"
    write(path, {kind: np.arange(len(OPTIONS)) / 8 for kind in KINDS})
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert [(row["knob"], row["value"]) for row in rows] == [(name, str(value)) for name, value in OPTIONS]
    assert float(rows[8]["speed"]) == 1.0


def test_a_search_is_taught_by_the_others_alone():
    odd = replace(source(6), scores=source(6).scores * [-1, 1, -1])
    of_gcc = Experience.of(gcc_space(), ["runtime"])
    with taught_without([*SOURCES, odd], {odd.name}):
        without = Experience.of(gcc_space(), ["runtime"])
        assert without.portfolio and not Experience.of(replace(gcc_space(), compiler=""), ["runtime"]).by_metric
    with taught_without([*SOURCES, odd], {SOURCES[0].name}):
        among = Experience.of(gcc_space(), ["runtime"])
    unroll = [gene.name for gene in SPACE.genes].index("-funroll-loops")
    assert without.effects[unroll][0] < among.effects[unroll][0] < 0
    assert [each.tolist() for each in Experience.of(gcc_space(), ["runtime"]).effects] == [
        each.tolist() for each in of_gcc.effects
    ]
