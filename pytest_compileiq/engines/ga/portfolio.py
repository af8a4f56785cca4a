"""Sets of a compiler's options that do well on most kernels: what a search of a new kernel tries first.

``bench/learn.py`` writes ``portfolio-gcc.csv``: a few sets of options of which one does well on most kernels, each
chosen greedily beside the earlier ones: Feurer et al., "Auto-sklearn 2.0" (JMLR 23, 2022), section 3.1.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pytest_compileiq.model import sha256_hex, tail_of
from pytest_compileiq.space import OFF, Gene, Point, Space
from pytest_compileiq.space.parameters import UNDECIDED

_SIZES = frozenset({"code_bytes", "instructions"})
_OTHERS = frozenset({"compile_time", "registers", "spill_bytes"})
_CHOSEN_BEHIND = {"-O": 2}  # what the corpus's command says: there an option that is off has this


def portfolio_of(space: Space, metrics: Sequence[str]) -> list[Point]:
    """The points to try first, of the metrics in turn; none where one of the metrics has no sets.

    Not yet canonical, and with ``UNDECIDED`` genes where nothing is known of them, as of macros of the source.
    """
    shipped = _sets(space.compiler)
    by_metric = [shipped.get(_kind(metric, space), ()) for metric in metrics]
    known = {name for sets in shipped.values() for options in sets for name in options} | _CHOSEN_BEHIND.keys()
    return [_point(space, options, known) for each in zip(*by_metric, strict=False) for options in each]


def name_of(space: Space, metrics: Sequence[str]) -> str:
    """What is tried first, for an artifact's metadata: the compiler and its file's digest; empty where nothing is."""
    if not portfolio_of(space, metrics):
        return ""
    return f"{space.compiler} {sha256_hex(_path_of(space.compiler).read_bytes())[:8]}"


def _point(space: Space, options: Mapping[str, str], known: set[str]) -> Point:
    """The point of ``options``, of what they were tried behind where it differs, and of nothing else that is known."""
    behind = {name: str(value) for name, value in _CHOSEN_BEHIND.items() if space.behind.get(name) != value}
    said = {**behind, **options}
    return tuple(_index(gene, said.get(gene.name)) if gene.name in known else UNDECIDED for gene in space.genes)


def _index(gene: Gene, value: str | None) -> int:
    values = [str(each) for each in gene.values]
    if value in values:
        return values.index(value)
    return OFF if gene.knockout_prob > 0 else 0


def _kind(metric: str, space: Space) -> str:
    """The sets for ``metric``: at ``-Os``, where a size's search ends, options do other things."""
    measured = tail_of(metric)[0].partition(" of ")[0]
    if measured in _OTHERS:
        return ""
    if measured not in _SIZES:
        return "speed"
    return "size at -Os" if any(gene.name == "-O" and "s" in gene.values for gene in space.genes) else "size"


@cache
def _sets(compiler: str) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Kind → sets of options, the first one to be tried first."""
    kinds: dict[str, dict[str, dict[str, str]]] = {}
    path = _path_of(compiler)
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            kinds.setdefault(row["kind"], {}).setdefault(row["place"], {})[row["knob"]] = row["value"]
    return {kind: tuple(sets.values()) for kind, sets in kinds.items()}


def _path_of(compiler: str) -> Traversable:
    return files(__package__) / f"portfolio-{compiler}.csv"
