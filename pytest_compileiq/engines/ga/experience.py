"""What a compiler's options did to many other kernels: what is expected of them here, until it is measured.

``bench/learn.py`` writes ``experience-gcc.csv``: for each option the mean over kernels of what it adds to a score. So a
search of a new kernel starts from a Gaussian process whose mean was learned on other tasks: Wang et al., "Pre-trained
Gaussian Processes for Bayesian Optimization" (JMLR 25, 2024), in its simplest form. What is measured here outweighs it.

It also writes ``portfolio-gcc.csv``: a few sets of options of which one does well on most kernels, each chosen greedily
beside the earlier ones: Feurer et al., "Auto-sklearn 2.0" (JMLR 23, 2022), section 3.1.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats
from pytest_compileiq.model import KnobValue, sha256_hex, tail_of
from pytest_compileiq.space import OFF, Gene, Point, Space
from pytest_compileiq.space.gene import UNDECIDED

_SIZES = frozenset({"code_bytes", "instructions"})
_OTHERS = frozenset({"compile_time", "registers", "spill_bytes"})
_LEARNED_BEHIND = {"-O": 2}  # what the corpus's command says: there an option that is off has this

_Table = Mapping[tuple[str, str], float]  # an option's name and value → what it adds, as in ``Experience.effects``


@dataclass(frozen=True)
class Experience:
    """What is expected of the knobs of one space.

    Attributes:
        by_metric: for each metric and each gene, what each of its values adds to a score, in standard deviations of the
            scores of random candidates, shape (values,); lower is better. Empty where nothing is expected.
        effects: the mean over metrics; zeros where nothing is expected.
        portfolio: points to try first, of the metrics in turn, with ``UNDECIDED`` genes where nothing is known of them;
            empty where one of the metrics has none. Not yet canonical.
    """

    by_metric: Sequence[Sequence[Floats]]
    effects: Sequence[Floats]
    portfolio: Sequence[Point] = ()

    @classmethod
    def of(cls, space: Space, metrics: Sequence[str]) -> Experience:
        """An empty one where nothing is known of the space's compiler, or of one of the metrics."""
        kinds = [_kind(metric, space) for metric in metrics]
        tables = [_table(space.compiler, kind) for kind in kinds]
        if not tables or not all(tables):
            return cls((), [np.zeros(len(gene.values)) for gene in space.genes])
        by_metric = [[_effects(gene, table, space.behind) for gene in space.genes] for table in tables]
        effects = [np.mean(each, axis=0) for each in zip(*by_metric, strict=True)]
        known = {name for table in tables for name, _ in table}
        in_turn = zip(*(_portfolio(space.compiler, kind) for kind in kinds), strict=False)
        return cls(by_metric, effects, [_point(space, options, known) for each in in_turn for options in each])


def name_of(space: Space, metrics: Sequence[str]) -> str:
    """What is expected, for an artifact's metadata: the compiler and a digest of its files; empty where nothing is."""
    if not Experience.of(space, metrics).by_metric:
        return ""
    shipped = (_path_of(space.compiler), _portfolio_of(space.compiler))
    return f"{space.compiler} {sha256_hex(b''.join(path.read_bytes() for path in shipped if path.is_file()))[:8]}"


def _effects(gene: Gene, table: _Table, behind: Mapping[str, KnobValue]) -> Floats:
    """What each value adds to what the gene has when it is off, which is another value behind another command."""
    nothing = np.zeros(len(gene.values))
    if isinstance(gene.values, range):  # no option has so many values, and a long range need not be walked
        return nothing
    added = np.array([table.get((gene.name, str(value)), 0.0) for value in gene.values])
    off = behind.get(gene.name)
    if _LEARNED_BEHIND.get(gene.name) in (None, off):
        return added
    return nothing if off is None else added - table.get((gene.name, str(off)), 0.0)


def _point(space: Space, options: Mapping[str, str], known: Collection[str]) -> Point:
    """The point of ``options``, of what they were tried behind where it differs, and of nothing else that is known."""
    behind = {name: str(value) for name, value in _LEARNED_BEHIND.items() if space.behind.get(name) != value}
    said = {**behind, **options}
    return tuple(_index(gene, said.get(gene.name)) if gene.name in known else UNDECIDED for gene in space.genes)


def _index(gene: Gene, value: str | None) -> int:
    values = [str(each) for each in gene.values]
    if value in values:
        return values.index(value)
    return OFF if gene.knockout_prob > 0 else 0


def _kind(metric: str, space: Space) -> str:
    """The column that says something of ``metric``: at ``-Os``, where a size's search ends, options do other things."""
    measured = tail_of(metric)[0].partition(" of ")[0]
    if measured in _OTHERS:
        return ""
    if measured not in _SIZES:
        return "speed"
    return "size at -Os" if any(gene.name == "-O" and "s" in gene.values for gene in space.genes) else "size"


@cache
def _table(compiler: str, kind: str) -> _Table:
    path = _path_of(compiler)
    if not kind or not path.is_file():
        return {}
    with path.open(encoding="utf-8") as stream:
        return {(row["knob"], row["value"]): float(row[kind]) for row in csv.DictReader(stream)}


@cache
def _portfolio(compiler: str, kind: str) -> Sequence[Mapping[str, str]]:
    """Sets of options for ``kind``, the first one to be tried first."""
    sets: dict[str, dict[str, str]] = {}
    path = _portfolio_of(compiler)
    if not path.is_file():
        return ()
    with path.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["kind"] == kind:
                sets.setdefault(row["place"], {})[row["knob"]] = row["value"]
    return tuple(sets.values())


def _path_of(compiler: str) -> Traversable:
    return files(__package__) / f"experience-{compiler}.csv"


def _portfolio_of(compiler: str) -> Traversable:
    return files(__package__) / f"portfolio-{compiler}.csv"
