"""What a search gains from what other kernels' artifacts taught, leaving one kernel out at a time.

    python bench/transfer.py teach compare report --third FOLDER --cache FILE --scratch FOLDER [--half held-out]

Ways to search: cold; *taught* by lessons of the other kernels' artifacts; *misled* by the worst lessons.
"""

import argparse
import math
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import MOST_LESSONS, Lesson
from pytest_compileiq.rules.likeness import adopted, weighed
from transfer_landscape import Kept, Kernel, Landscape, Objective

BENCH = Path(__file__).parent
OWN = BENCH / "transfer_kernels"
TESTED = BENCH.parent / "tests" / "kernels"
TARGET = "x86-64-v3-gcc12"
ENGINE = "frozen 6"  # of the engine, and of the choice of lessons
BATCH = 4
EVALUATIONS, TAUGHT_EVALUATIONS = 50, 20
COLUMNS = [("cold", 20), ("cold", 50), ("taught", 10), ("taught", 20), ("misled", 20), ("misled", 50)]
TEACHER_SEED, TEACHER_EVALUATIONS = 1000, 200
LEAST_GAIN = 0.01
FAMILIES = {"smoothing": "stencil", "product": "matmul", "springs": "pair_potential"}
HELD_OUT = ("checksum", "convolution", "running", "transposition")
OPEN_SIZED = (
    "bytes", "filter", "hashing", "product", "reversal", "smoothing", "springs", "pair_potential", "ultrajsondec",
)  # fmt: skip
HELD_OUT_TIMED = ("running", "transposition")  # of the others a cold search knew all, or nothing, after 20 evaluations
HELD_OUT_SIZED = ("convolution", "histogram", "inlined", "nearest_centroid", "running", "structs")


def open_kernels(third: Path) -> Iterator[Kernel]:
    """Those that taught, and that the parameters were chosen on; one is other people's, in ``third``."""
    for source in sorted(OWN.glob("*.c")):
        if source.stem not in HELD_OUT:
            yield Kernel(source.stem, source, FAMILIES.get(source.stem, source.stem), timed=True)
    yield Kernel("pair_potential", TESTED / "pair_potential.c", "pair_potential", timed=False)
    parser = third / "ujson-5.10.0" / "lib" / "ultrajsondec.c"
    if parser.exists():
        yield Kernel(parser.stem, parser, "ujson", timed=False)


def held_out_kernels() -> Iterator[Kernel]:
    """Those that were searched for the first time when the parameters had been chosen."""
    for name in HELD_OUT:
        yield Kernel(name, OWN / f"{name}.c", name, timed=name in HELD_OUT_TIMED)
    yield Kernel("histogram", TESTED / "histogram.c", "histogram", timed=False)
    yield Kernel("nearest_centroid", BENCH / "kernels" / "nearest_centroid.c", "nearest_centroid", timed=False)
    for name in ("inlined", "structs"):
        yield Kernel(name, BENCH / "value_safe_kernels" / f"{name}.c", name, timed=False)


def search(objective: Objective, seed: int, evaluations: int, **known: Any) -> list[list[Any]]:
    """Search by batches; returns the knobs, what the search was told and what it is judged by, None where it failed."""
    engine = make("ga", Brief(objective.landscape.space, seed, 1, evaluations, **known))
    rng = np.random.default_rng([seed, 7])
    codes: dict[str, float] = {}
    done: list[list[Any]] = []
    while len(done) < evaluations:
        results = []
        for candidate in engine.ask(min(BATCH, evaluations - len(done))):
            code = objective.code(candidate.knobs)
            duplicate = code in codes
            if code is not None and not duplicate:
                codes[code] = objective.told(candidate.knobs, rng)
            if code is None:
                results.append(Told(candidate, failure="compile"))
                done.append([dict(candidate.knobs), None, None])
            else:
                results.append(Told(candidate, (codes[code],), duplicate=duplicate, code=code))
                done.append([dict(candidate.knobs), codes[code], objective.judged(candidate.knobs)])
        engine.tell(results)
    return done


def best_after(done: list[list[Any]], count: int) -> float:
    """What the best by what was told is worth, after ``count`` evaluations."""
    scored = [(told, judged) for _, told, judged in done[:count] if told is not None]
    return min(scored)[1]


def teach(kept: Kept, objective: Objective) -> Mapping[str, Any]:
    """What an artifact of a whole search would hold: the smallest winner, and what each knob of it brings."""
    key = f"teacher {objective.name}"
    if (lesson := kept.get(key)) is not None:
        return lesson
    done = search(objective, TEACHER_SEED, TEACHER_EVALUATIONS)
    knobs = min((told, number) for number, (_, told, _) in enumerate(done) if told is not None)[1]
    winner = done[knobs][0]
    full = objective.judged(winner)
    allowed = max(-0.05 * full, 0.01 if objective.metric == "runtime" else 0.003)
    for name in list(winner):
        rest = {each: value for each, value in winner.items() if each != name}
        if objective.code(rest) is not None and objective.judged(rest) - full <= allowed:
            winner = rest
    here = objective.judged(winner)
    steps = {}
    for name in winner:
        rest = {each: value for each, value in winner.items() if each != name}
        if objective.code(rest) is not None:
            steps[name] = objective.judged(rest) - here
    lesson = {"knobs": winner, "steps": steps, "gain": -here, "full": -full}
    kept.put(key, lesson)
    return lesson


def taught_here(kept: Kept, objective: Objective, teachers: Sequence[Objective]) -> list[Lesson]:
    """What artifacts of the other families teach, as a search of ``objective`` would find it in the store."""
    taught = {}
    for other in teachers:
        is_other = other.landscape.kernel.family != objective.landscape.kernel.family
        if other.metric == objective.metric and is_other and (lesson := kept.get(f"teacher {other.name}")):
            knobs = adopted(lesson["knobs"], objective.landscape.space)
            if lesson["gain"] > LEAST_GAIN and knobs is not None:
                taught[other.landscape.kernel.name, TARGET] = knobs
    weights = weighed(taught, objective.landscape.kernel.name)
    lessons = [Lesson("/".join(key), "0" * 64, knobs, weights[key]) for key, knobs in taught.items()]
    return sorted(lessons, key=lambda lesson: -lesson.weight)[:MOST_LESSONS]


def misled_here(objective: Objective) -> list[Lesson]:
    """The worst that neighbours can teach: the slowest or largest half of random points, each believed entirely."""
    rng = np.random.default_rng(11)
    space = objective.landscape.space
    points = [space.knobs(space.sample(rng)) for _ in range(2 * MOST_LESSONS)]
    worst = sorted((point for point in points if objective.code(point) is not None), key=objective.judged)
    return [Lesson(f"bad{number}/{TARGET}", "0" * 64, knobs, 1.0) for number, knobs in enumerate(worst[-MOST_LESSONS:])]


def compare(kept: Kept, objective: Objective, teachers: Sequence[Objective], seed: int) -> None:
    """Search in every way; of each evaluation what the search was told, and what it is judged by, is kept."""
    taught = taught_here(kept, objective, teachers)
    ways: Mapping[str, tuple[int, dict[str, Any]]] = {
        "cold": (EVALUATIONS, {}),
        "taught": (TAUGHT_EVALUATIONS, {"lessons": taught}),
        "misled": (EVALUATIONS, {"lessons": misled_here(objective)}),
    }
    for how, (evaluations, known) in ways.items():
        key = f"{how} {objective.name} {seed} {ENGINE}"
        if kept.get(key) is None:
            kept.put(key, [each[1:] for each in search(objective, seed, evaluations, **known)])


def report(kept: Kept, objectives: Sequence[Objective], seeds: int) -> None:
    """Medians over seeds, of what an engine holds for best, as a gain over the baseline in per cent."""
    shares: dict[tuple[str, int], list[float]] = {}
    print("| objective | seeds | " + " | ".join(f"{how} {count}" for how, count in COLUMNS) + " | p |")
    for objective in objectives:
        runs = {
            how: [kept.get(f"{how} {objective.name} {seed} {ENGINE}") for seed in range(seeds)] for how, _ in COLUMNS
        }
        whole = [seed for seed in range(seeds) if all(runs[how][seed] for how in runs)]
        if not whole:
            continue
        best = {
            column: [best_after([[None, *each] for each in runs[column[0]][seed]], column[1]) for seed in whole]
            for column in COLUMNS
        }
        most = min(min(values) for values in best.values())
        if most > -LEAST_GAIN:
            print(f"| {objective.name} | {len(whole)} | nothing to find |")
            continue
        medians = {column: statistics.median(values) for column, values in best.items()}
        for column, value in medians.items():
            shares.setdefault(column, []).append(value / most)
        p = mannwhitneyu(best["taught", 20], best["cold", 50], alternative="two-sided").pvalue
        cells = " | ".join(f"{100 * (math.exp(-medians[column]) - 1):.1f}" for column in COLUMNS)
        print(f"| {objective.name} | {len(whole)} | {cells} | {p:.2f} |")
    for column, values in shares.items():
        print(
            f"{column[0]} {column[1]}: {100 * statistics.mean(values):.0f} % of the way to the best known, on average"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", choices=["teach", "compare", "report"])
    parser.add_argument("--half", choices=["open", "held-out"], default="open")
    parser.add_argument("--metric", choices=["runtime", "code_bytes"], help="both without it")
    parser.add_argument("--third", type=Path, required=True, help="where sdists of other people's C are unpacked")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    asked = parser.parse_args()
    kept = Kept(asked.cache)
    teachers = list(objectives_of(kept, asked, open_kernels(asked.third), OPEN_SIZED))
    chosen = teachers if asked.half == "open" else list(objectives_of(kept, asked, held_out_kernels(), HELD_OUT_SIZED))
    if "teach" in asked.steps:
        for objective in teachers:
            lesson = teach(kept, objective)
            print(f"{objective.name}: {lesson['gain']:.3f} of {lesson['full']:.3f}: {lesson['knobs']}", flush=True)
    for seed in range(asked.seeds if "compare" in asked.steps else 0):
        for objective in chosen:
            compare(kept, objective, teachers, seed)
        print(f"seed {seed} done at {time.strftime('%H:%M:%S')}", flush=True)
    if "report" in asked.steps:
        report(kept, chosen, asked.seeds)


def objectives_of(
    kept: Kept, asked: argparse.Namespace, kernels: Iterable[Kernel], sized: Collection[str]
) -> Iterator[Objective]:
    """Times over ``-O2``, and sizes over ``-Os``."""
    for kernel in kernels:
        for metric, level in (("runtime", "-O2"), ("code_bytes", "-Os")):
            if asked.metric in (None, metric) and (kernel.timed if metric == "runtime" else kernel.name in sized):
                yield Objective(Landscape(kernel, level, kept, asked.scratch / f"{kernel.name}{level}"), metric)


if __name__ == "__main__":
    main()
