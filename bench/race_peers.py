"""The engines of a race: those of the registry, and other people's optimisers, each as its authors recommend it."""

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import pytest_compileiq
from pytest_compileiq.engines.base import Brief, Engine
from pytest_compileiq.engines.registry import make
from pytest_compileiq.space import Point
from race_peer_kernel_tuner import KernelTuner
from race_peer_nevergrad import Nevergrad
from race_peer_pymoo import Pymoo
from race_peer_smac import Smac

POOL = 16
OURS = "ga"
Make = Callable[[Brief, Sequence[Point]], Engine]


@dataclass(frozen=True)
class Raced:
    """An engine of the race.

    Attributes:
        label: its name in tables.
        package: what has to be installed; None for engines of this project.
        peer: makes one from the first points of its population; None where the registry has it.
        fronts: whether it takes several objectives.
    """

    label: str
    package: str | None = None
    peer: Make | None = None
    fronts: bool = True


ENGINES: dict[str, Raced] = {
    OURS: Raced("**ga** (ours)"),
    "random": Raced("random"),
    "optuna:tpe": Raced("Optuna TPE, multivariate", "optuna"),
    "optuna:nsga2": Raced("Optuna NSGA-II", "optuna"),
    "pymoo": Raced("pymoo mixed-variable GA", "pymoo", Pymoo),
    "nevergrad": Raced("nevergrad NGOpt", "nevergrad", Nevergrad),
    "smac": Raced("SMAC3", "smac", Smac),
    "kernel_tuner:vndx": Raced("Kernel Tuner HybridVNDX", "kernel_tuner", partial(KernelTuner, "vndx"), fronts=False),
    "kernel_tuner:greywolf": Raced(
        "Kernel Tuner AdaptiveTabuGreyWolf", "kernel_tuner", partial(KernelTuner, "greywolf"), fronts=False
    ),
}  # fmt: skip


def installed() -> list[str]:
    """The engines of the race that are here; one line for each that is not."""
    here = []
    for name, raced in ENGINES.items():
        if raced.package is None or importlib.util.find_spec(raced.package):
            here.append(name)
        else:
            print(f"{name} is left out: pip install {raced.package}")
    return here


def opened(name: str, brief: Brief) -> Engine:
    """The engine called ``name``: one of the registry, or a peer."""
    peer = ENGINES[name].peer if name in ENGINES else None
    if peer is None:
        return make(name, brief)
    rng = np.random.default_rng(brief.seed)
    drawn = [brief.space.sample(rng) for _ in range(POOL)]
    return peer(brief, list(dict.fromkeys([*brief.seed_points(), *drawn])))


def version(name: str) -> str:
    """What a race of this engine depends on: its code here and that of the races, and the package's version."""
    room = name.partition(":")[0]
    home, bench = Path(pytest_compileiq.__file__).parent / "engines", Path(__file__).parent
    code = [
        *home.glob(f"{room}.py"),
        *(home / room).glob("**/*.py"),
        *(home / room).glob("*.csv"),
        *bench.glob(f"race_peer_{room}.py"),
        bench / "race_runs.py",
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(code))).hexdigest()[:16]
    package = ENGINES[name].package if name in ENGINES else None
    return f"{digest} {importlib.metadata.version(package) if package else ''}".strip()
