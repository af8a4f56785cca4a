"""A few sets of options of which one does well on most kernels: each chosen greedily beside the earlier ones.

Feurer et al., "Auto-sklearn 2.0" (JMLR 23, 2022), section 3.1: what is made large is the mean, over kernels, of the
best share of the way that one of the sets goes. It grows with each set and ever less so, and the greedy choice has at
least 63 % of what the best choice has (Nemhauser, Wolsey & Fisher, Math. Programming 14, 1978). Every set was tried on
every kernel: the best few of each kernel's candidates in the corpus, on a part of its sources.
"""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import learn_corpus
from pytest_compileiq.model import Knobs
from pytest_compileiq.space import OFF, Point
from race_build import BENCH, Kernel, Source, Workshop
from race_kept import Kept
from race_objectives import gcc_space

RECORDED = BENCH / "data" / "portfolio.csv.gz"
KINDS: Mapping[str, tuple[Sequence[str], bool]] = {  # metrics, and whether of candidates at -Os
    "size": (["code_bytes"], False),
    "size at -Os": (["code_bytes"], True),
    "speed": (["executed", "time"], False),
}
FAMILIES = {"lzfse_lzvn": "lzvn_decoder", "webrtc_core": "voice"}  # one code under two names
LEAST_SPREAD = 0.003  # of the log-ratios: below it options do nothing to a kernel but noise
SPACE = gcc_space()
LEVEL = [gene.name for gene in SPACE.genes].index("-O")
SMALL = SPACE.genes[LEVEL].values.index("s")
SOURCES = 44
OF_EACH = 3
SETS = 8


@dataclass(frozen=True)
class Tried:
    """What every set brings on every source, for one kind.

    Attributes:
        families: of the sources, shape (sources,); those that are one code under two names have one.
        points: the sets, as points of ``gcc_space``, shape (sets, genes).
        owners: the families of the sources that they are the best candidates of, shape (sets,).
        shares: how much of the way to the best known each goes, 0 to 1, shape (sources, sets).
    """

    families: NDArray[np.str_]
    points: Sequence[Point]
    owners: NDArray[np.str_]
    shares: NDArray[np.float64]


def record(place: int, shares: int) -> None:
    """Try every set on this share of the sources; without a share, write what both have kept."""
    kept = Kept(learn_corpus.KEPT)
    workshop = Workshop(kept)
    try:
        rows = [
            row
            for kind in KINDS
            for number, source in enumerate(_sources(kind))
            if number % shares == place
            for row in _tried_on(source, workshop, kind)
        ]
    finally:
        workshop.close()
        kept.close()
    if shares == 1:
        learn_corpus.write_table(RECORDED, ["kind", "source", "owner", "point", "score"], rows)


@cache
def tried(kind: str) -> Tried:
    """What was recorded of ``kind``, on the sources on which something can be gained."""
    rows = [row for row in learn_corpus.read_table(RECORDED) if row["kind"] == kind]
    sources = list(dict.fromkeys(row["source"] for row in rows))
    sets = list(dict.fromkeys((row["owner"], row["point"]) for row in rows))
    scores = np.zeros((len(sources), len(sets)))
    for row in rows:
        scores[sources.index(row["source"]), sets.index((row["owner"], row["point"]))] = float(row["score"] or 0)
    best = scores.min(axis=1)
    tell = best < -LEAST_SPREAD
    return Tried(
        np.array([FAMILIES.get(name, name) for name, told in zip(sources, tell, strict=True) if told]),
        [learn_corpus.point_of(point) for _, point in sets],
        np.array([FAMILIES.get(owner, owner) for owner, _ in sets]),
        np.clip(scores[tell] / best[tell, None], 0, 1),
    )


def chosen(known: Tried, without: Collection[str] = (), size: int = SETS) -> list[Knobs]:
    """The sets, the first one to be tried first; neither the families ``without`` nor their own sets have a say."""
    told, open_ = (np.flatnonzero(~np.isin(of, list(without))) for of in (known.families, known.owners))
    shares, reached, sets = known.shares[np.ix_(told, open_)], np.zeros(len(told)), []
    for _ in range(size):
        best = int(np.argmax(np.maximum(reached[:, None], shares).mean(axis=0)))
        reached = np.maximum(reached, shares[:, best])
        sets.append(SPACE.knobs(known.points[open_[best]]))
    return sets


def _sources(kind: str) -> list[Source]:
    """A part of the corpus, drawn once; of speeds, of those that run."""
    names = {measured.name for measured in _corpus()}
    every = [source for source in learn_corpus.sources() if source.name in names]
    every = [source for source in every if kind != "speed" or source.driver is not None]
    return [every[number] for number in sorted(np.random.default_rng(0).permutation(len(every))[:SOURCES])]


@cache
def _sets(kind: str) -> Sequence[tuple[str, Point]]:
    """The best few candidates of each source, with the name of the source."""
    named = {measured.name: measured for measured in _corpus()}
    sets = []
    for source in _sources(kind):
        points, scores = named[source.name].points.copy(), named[source.name].scores[:, _metric(kind)]
        ranked = np.nan_to_num(scores, nan=np.inf)
        if kind == "size":
            ranked[points[:, LEVEL] == SMALL] = np.inf
            points[:, LEVEL] = OFF
        best = np.argsort(ranked, kind="stable")[:OF_EACH]
        sets += [(source.name, tuple(points[number].tolist())) for number in best]
    return sets


@cache
def _corpus() -> Sequence[learn_corpus.Measured]:
    return list(learn_corpus.read())


def _metric(kind: str) -> int:
    """Which of ``METRICS`` a kind's sets are chosen by."""
    return learn_corpus.METRICS.index("time" if kind == "speed" else "code_bytes")


def _tried_on(source: Source, workshop: Workshop, kind: str) -> Iterator[Sequence[str]]:
    """One row a set: its score on ``source`` as the log-ratio to the kind's baseline, empty where it has none."""
    kernel = Kernel(workshop, source)
    at = _metric(kind)
    meter = learn_corpus.Meter(kernel, [learn_corpus.METRICS[at]])
    level = meter.scores({"-O": "s"} if kind == "size at -Os" else {})[at]
    for owner, point in _sets(kind):
        score = learn_corpus.shown(meter.scores(SPACE.knobs(point))[at] - level)
        yield kind, source.name, owner, learn_corpus.text_of(point), score
    meter.close()
    print(f"{kind:<16}{source.name}", flush=True)


def write(path: Path, by_kind: Mapping[str, Sequence[Knobs]]) -> None:
    """One row an option of a set."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["kind", "place", "knob", "value"])
        for kind, sets in by_kind.items():
            rows.writerows([kind, place, *option] for place, knobs in enumerate(sets) for option in knobs.items())
