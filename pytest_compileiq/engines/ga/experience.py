"""What a compiler's options did to many other kernels: what is expected of them here, until it is measured.

``bench/learn.py`` writes ``experience-gcc.csv``: for each option the mean over kernels of what it does to a score, and
the standard deviation over them. A search of a new kernel so starts from a Gaussian process whose mean and relevances
were learned on other tasks: Wang et al., "Pre-trained Gaussian Processes for Bayesian Optimization" (JMLR 25, 2024), in
a simple form. What is measured here outweighs it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats
from pytest_compileiq.model import tail_of
from pytest_compileiq.space import Gene, Space

_SIZES = frozenset({"code_bytes", "instructions"})
_OTHERS = frozenset({"compile_time", "registers", "spill_bytes"})
_OF_FOREIGN_KNOBS = 2.0  # the relevance of a knob that is no option of the compiler: its author thinks that it matters


@dataclass(frozen=True)
class _Row:
    """One option: the mean over kernels of what it adds to a score, and the standard deviation over them.

    Both are in standard deviations of the scores of a kernel's random candidates.
    """

    effect: float
    spread: float


_Table = Mapping[tuple[str, str], _Row]  # by an option's name and value


@dataclass(frozen=True)
class Experience:
    """What is expected of the knobs of one space.

    Attributes:
        effects: of each gene, what each of its values adds to a score, shape (values,); lower is better.
        relevance: how much more than others each gene is expected to matter, shape (genes,).
        is_empty: nothing is expected of anything.
    """

    effects: Sequence[Floats]
    relevance: Floats
    is_empty: bool = False

    @classmethod
    def of(cls, space: Space, metrics: Sequence[str]) -> Experience:
        """The mean over ``metrics``; an empty one where nothing is known of the space's compiler or of a metric."""
        tables = [_table(space.compiler, _kind(metric, space)) for metric in metrics]
        if not tables or not all(tables):
            return cls([np.zeros(len(gene.values)) for gene in space.genes], np.ones(len(space.genes)), is_empty=True)
        effects = [np.mean([_effects(gene, table) for table in tables], axis=0) for gene in space.genes]
        return cls(effects, np.mean([_relevance(space, table) for table in tables], axis=0))


def _effects(gene: Gene, table: _Table) -> Floats:
    rows = _rows(gene, table)
    return np.array([row.effect if row else 0.0 for row in rows])


def _relevance(space: Space, table: _Table) -> Floats:
    """By how much an option typically moves a score, over the mean of all known options."""
    moved = np.array([
        max((abs(row.effect) / 2 + row.spread for row in _rows(gene, table) if row), default=np.nan)
        for gene in space.genes
    ])  # fmt: skip
    known = ~np.isnan(moved)
    return np.where(known, moved / (moved[known].mean() if known.any() else 1.0), _OF_FOREIGN_KNOBS)


def _rows(gene: Gene, table: _Table) -> list[_Row | None]:
    """Of each value; options have few of them, and a long range is none."""
    if isinstance(gene.values, range):
        return [None] * len(gene.values)
    return [table.get((gene.name, str(value))) for value in gene.values]


def _kind(metric: str, space: Space) -> str:
    """The columns that say something of ``metric``: at ``-Os``, where a size's search ends, options do other things."""
    measured = tail_of(metric)[0].partition(" of ")[0]
    if measured in _OTHERS:
        return ""
    if measured not in _SIZES:
        return "speed"
    return "size at -Os" if any(gene.name == "-O" and "s" in gene.values for gene in space.genes) else "size"


@cache
def _table(compiler: str, kind: str) -> _Table:
    path = files(__package__) / f"experience-{compiler}.csv"
    if not kind or not path.is_file():
        return {}
    with path.open(encoding="utf-8") as stream:
        return {
            (row["knob"], row["value"]): _Row(float(row[f"{kind} effect"]), float(row[f"{kind} spread"]))
            for row in csv.DictReader(stream)
        }
