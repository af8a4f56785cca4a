"""How small winners become, what that costs, and what it takes: on simulated kernels, and on real ones.

    python bench/smallest_winner.py --simulate [--cases 200]
    python bench/smallest_winner.py [--budget 200] [--objective code_bytes] [--own] [--lz4 DIR] [--xxhash DIR]

Simulated kernels have 11 to 42 controls: most change no machine code or bring nothing, one to eight bring something,
and the times are noisy. There the true loss of what is stored is known. The real ones are this project's own kernels
(``--own``) and lz4, xxHash and double-conversion, which ``libraries.py`` downloads unless their directories are given.
"""

import argparse
import math
import random
import shutil
import statistics
import tempfile
import tomllib
from pathlib import Path

from libraries import LIBRARIES, downloaded, made, run
from machine import describe
from pytest_compileiq import literal
from pytest_compileiq.config import Budget
from pytest_compileiq.reduction import Without
from pytest_compileiq.rules.reduction import loss_budget
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_benchmark, fake_settings
from pytest_compileiq.tuning.run import tune

OWN = Path(__file__).parents[1] / "tests" / "kernels"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--budget", default="200")
    parser.add_argument("--objective", default="code_bytes", choices=("runtime", "code_bytes"))
    parser.add_argument("--own", action="store_true", help="this project's kernels, with their own objectives")
    for library in LIBRARIES[:3]:
        parser.add_argument(f"--{library.name}", type=Path, metavar="DIR")
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as temporary:
        if options.simulate:
            print(simulated(Path(temporary), options.cases))
        elif options.own:
            print(told(own_kernels(Path(temporary) / "own", options.budget)))
        else:
            print(
                told(
                    [
                        artifact
                        for library in LIBRARIES[:3]
                        for artifact in of_library(library, Path(temporary), options)
                    ]
                )
            )


# ── known answers ────────────────────────────────────────────────────────────────────────────────────────────────


def simulated(home: Path, cases: int) -> str:
    """The true loss of what is stored, over the budget, and how many controls it has."""
    over, stored, needed, undecided, larger = [], [], [], 0, 0
    for seed in range(cases):
        chance = random.Random(seed)
        effects = {f"-good{number}": math.exp(-chance.uniform(0.01, 0.4)) for number in range(chance.randint(1, 8))}
        small = {f"-small{number}": math.exp(-chance.uniform(0, 0.004)) for number in range(chance.randint(0, 6))}
        others = [f"-idle{number}" for number in range(chance.randint(5, 18))]
        others += [f"-useless{number}" for number in range(chance.randint(5, 10))]
        artifact = tuned(
            home / str(seed), [*effects, *small, *others], effects | small, noise=chance.choice((1e-3, 5e-3, 2e-2))
        )
        if artifact is None or artifact.reduction is None:
            continue
        kept = artifact.controls.knobs
        full = -math.fsum(map(math.log, (effects | small).values()))
        loss = -math.fsum(math.log(factor) for name, factor in (effects | small).items() if name not in kept)
        budget = loss_budget(full)
        over.append(loss / budget)
        stored.append(len(kept))
        resolvable = [name for name, factor in (effects | small).items() if -math.log(factor) > budget]
        needed.append(len(resolvable))
        undecided += artifact.reduction.undecided
        larger += artifact.reduction.kept_larger is not None
    within = sum(loss <= 1 for loss in over)
    return (
        f"{len(over)} of {cases} cases stored; the true loss is within the budget in {within} "
        f"({within / len(over):.1%}), "
        f"median {statistics.median(over):.2f} of it; {statistics.median(stored)} controls stored on median where "
        f"{statistics.median(needed)} have effects above the budget; {undecided} undecided, {larger} stored in full"
    )


def tuned(root: Path, names: list[str], effects: dict[str, float], noise: float):
    """The artifact of a search that has found everything, on fakes."""
    root.mkdir(parents=True)
    builder = FakeBuilder(code=lambda knobs: {"kernel": repr(sorted(name for name in knobs if "idle" not in name))})
    (root / "kernel.src").write_text(builder.source)

    def seconds(controls):
        knobs = controls.knobs if controls else {}
        return 1e-3 * math.prod(factor for name, factor in effects.items() if name in knobs)

    space = {name: literal("", knockout_prob=1e-4) for name in names}
    store = Store(root / "acf")
    settings = fake_settings(root, budget=Budget(evaluations=2), reduce=True)
    pool = FakePool(seconds=seconds, noise=noise)
    tune(fake_benchmark(root, builder, space=space), settings=settings, store=store, pool=pool, progress=FakeProgress())
    artifact = store.read("kernel", builder.target)
    shutil.rmtree(root)
    return artifact if artifact.outcome == "tuned" else None


# ── real kernels ─────────────────────────────────────────────────────────────────────────────────────────────────


def of_library(library, home: Path, options) -> list[dict]:
    package = getattr(options, library.name) or downloaded(library.name, home / "packages")
    project = made(library, package, home / library.name, options.objective)
    run(project, "--tune", f"--tune-budget={options.budget}")
    return artifacts_of(project)


def own_kernels(project: Path, budget: str) -> list[dict]:
    shutil.copytree(OWN, project, ignore=shutil.ignore_patterns("cuda", "triton_kernels", "test_cuda*", "__pycache__"))
    (project / "pytest.ini").write_text("[pytest]\n")
    run(project, "--tune", f"--tune-budget={budget}")
    return artifacts_of(project)


def artifacts_of(project: Path) -> list[dict]:
    return [tomllib.loads(path.read_text()) for path in sorted(project.glob("acf/*/*.toml"))]


def told(artifacts: list[dict]) -> str:
    """A line for each winner, and the medians."""
    lines, after, shares = [], [], []
    for artifact in artifacts:
        if (reduction := artifact.get("reduction")) is None:
            lines.append(f"{artifact['benchmark']}: {artifact['outcome']}, not reduced")
            continue
        entries = map(Without.model_validate, artifact.get("attribution", {"without": []})["without"])
        resolved = sum(entry.is_resolved for entry in entries)
        budgets = ", ".join(f"{100 * budget:.2f} %" for budget in reduction.get("budgets", {}).values())
        share = reduction["seconds"] / reduction["search_seconds"]
        losses = ", ".join(f"{100 * loss['loss']:.2f} % ({100 * loss['low']:.2f} to {100 * loss['high']:.2f})"
                           for loss in reduction.get("losses", []))  # fmt: skip
        lost = f"lost {losses} of {budgets}" if losses else "lost nothing"
        lines.append(
            f"{artifact['benchmark']}: {reduction['before']} → {reduction['after']} controls "
            f"({reduction['by_code']} by machine code, "
            f"{reduction.get('undecided', 0)} undecided), {resolved} resolved, {lost}, "
            f"{reduction['seconds']:g} s, {share:.0%} of the search's {reduction['search_seconds']:g} s"
            + (f"; {reduction['kept_larger']}" if "kept_larger" in reduction else "")
        )
        after.append(reduction["after"])
        shares.append(share)
    if after:
        lines.append(
            f"median {statistics.median(after)} controls, median {statistics.median(shares):.0%} of the search"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
