"""What an engine itself costs: one ask and tell by the number of knobs, and a search of 10,000 evaluations of ours.

    nice python bench/engines.py [--engines ga,optuna:tpe]

Linear algebra has one thread, as in a search. How well engines search is what ``bench/race.py`` is for.
"""

import argparse
import hashlib
import resource
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from machine import describe
from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.loop import one_thread
from pytest_compileiq.space import Space, choice, literal
from race_peers import ENGINES, OURS, installed, opened

KNOBS = (30, 100, 300)
COST_EVALUATIONS = 200
LONG_EVALUATIONS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="", help="between commas; all that are installed without it")
    asked = parser.parse_args()
    print(describe())
    print()
    engines = asked.engines.split(",") if asked.engines else installed()
    with one_thread():
        print("\n".join(cost_table({name: [cost_ms(name, size) for size in KNOBS] for name in engines})))
        if OURS in engines:
            print()
            print(long_text(long_search()))


def cost_table(costs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    yield f"**Own cost of one ask and tell**, mean processor time over {COST_EVALUATIONS} evaluations, ms"
    yield ""
    yield f"| engine | {' | '.join(f'{size} knobs' for size in KNOBS)} |"
    yield f"|---|{'---|' * len(KNOBS)}"
    for engine, by_size in costs.items():
        yield f"| {ENGINES[engine].label} | {' | '.join(f'{milliseconds:.1f}' for milliseconds in by_size)} |"


def long_text(long: Mapping[str, float]) -> str:
    evaluations, times = f"{long['evaluations']:,}", long["slowest_ms"] / long["at_400_ms"]
    return (
        f"**{evaluations} evaluations** of ours at 100 knobs, asked for four at a time: an ask and tell takes "
        f"{long['at_400_ms']:.0f} ms at 400 evaluations and {long['later_ms']:.0f} ms from there on (medians), the "
        f"slowest {long['slowest_ms']:.0f} ms, {times:.1f} times as much. The process holds {long['memory_mb']:.0f} MB "
        f"at 400 evaluations, and {long['memory_grown_mb']:+.0f} MB at the end."
    )


def cost_ms(name: str, knobs: int) -> float:
    """Mean processor time of one ask and tell, in milliseconds, over a search of an objective that costs nothing."""
    engine: Engine = opened(name, Brief(costless_space(knobs), 1, budget=COST_EVALUATIONS, seeds=[Candidate({})]))
    return statistics.mean(asks_s(engine, 1, COST_EVALUATIONS)) * 1000


def long_search() -> dict[str, float]:
    """Our engine over 10,000 evaluations at 100 knobs, asked for four at a time: does an ask grow dear, does memory?"""
    engine = make(OURS, Brief(costless_space(100), 1, budget=LONG_EVALUATIONS))
    early = list(asks_s(engine, 4, 440))
    memory = resident_mb()
    later = list(asks_s(engine, 4, LONG_EVALUATIONS - 440))
    return {
        "evaluations": LONG_EVALUATIONS,
        "at_400_ms": statistics.median(early[-20:]) * 1000,
        "later_ms": statistics.median(later) * 1000,
        "slowest_ms": max(later) * 1000,
        "memory_mb": memory,
        "memory_grown_mb": resident_mb() - memory,
    }


def asks_s(engine: Engine, n: int, evaluations: int) -> Iterator[float]:
    """Processor time, in seconds, of each ask for ``n`` and the tell of what it gave."""
    for _ in range(evaluations // n):
        begun = time.process_time()
        asked = engine.ask(n)
        told = [Told(one, (sum(hash_of(knob) - 0.5 for knob in one.knobs.items()),)) for one in asked]
        engine.tell(told)
        yield time.process_time() - begun


def costless_space(knobs: int) -> Space:
    """On/off knobs, and one knob of four values to every two of them."""
    return Space.from_mapping(
        {f"-f{number}": literal("", 0.5) for number in range(knobs * 2 // 3)}
        | {f"-p{number}=": choice([1, 2, 4, 8], 0.5) for number in range(knobs - knobs * 2 // 3)}
    )


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


@cache
def hash_of(value: object) -> float:
    """A number from 0 to 1 that depends on ``value`` alone."""
    return int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:4], "big") / 2**32


if __name__ == "__main__":
    main()
