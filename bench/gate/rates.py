"""How often something was said, with its exact interval; the tables of the judge and of the simulation as CSV."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from scipy.stats import beta


@dataclass(frozen=True)
class Rate:
    """One cell of a table: ``said`` times in ``trials`` under ``condition`` the ``judge`` called the tuned arm faster.

    ``case`` is the kernel, or what was simulated; ``samples`` (of one arm) and ``seconds`` are means over trials up to
    the verdict, 0 where nothing was timed.
    """

    condition: str
    case: str
    gain: float
    judge: str
    said: int
    trials: int
    samples: float = 0.0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        return self.said / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95 % interval (Clopper & Pearson, Biometrika 26, 1934)."""
        return exact_interval(self.said, self.trials)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.said} of {self.trials} ({100 * low:.2f} to {100 * high:.2f} %)"


def exact_interval(said: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a binomial proportion."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, said, trials - said + 1)) if said else 0.0
    high = float(beta.isf(tail, said + 1, trials - said)) if said < trials else 1.0
    return low, high


def pooled(rates: Iterable[Rate], **same: str) -> Rate:
    """All ``rates`` as one, named as ``same`` says; samples and seconds weighted by trials."""
    parts = list(rates)
    trials = sum(part.trials for part in parts)
    return Rate(**{
        **asdict(parts[0]), **same,
        "said": sum(part.said for part in parts),
        "trials": trials,
        "samples": sum(part.samples * part.trials for part in parts) / trials,
        "seconds": sum(part.seconds * part.trials for part in parts) / trials,
    })  # fmt: skip


def write(path: Path, rates: Sequence[Rate]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Rate)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(rate) for rate in rates)


def read(path: Path) -> list[Rate]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Rate(**{field.name: field.type(row[field.name]) for field in fields(Rate)}) for row in csv.DictReader(file)
        ]


def select(rates: Iterable[Rate], **wanted: object) -> list[Rate]:
    return [rate for rate in rates if all(getattr(rate, key) == value for key, value in wanted.items())]


def percent(rates: Sequence[Rate]) -> str:
    return f"{100 * pooled(rates).share:.1f}" if rates else "–"


def in_full(rates: Sequence[Rate]) -> str:
    return str(pooled(rates)) if rates else "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
