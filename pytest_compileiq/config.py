"""What a run was told: its settings and budgets, as values.

Every run of pytest imports this module: its classes have no generated methods, which take time to make.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from pytest_compileiq.errors import UserError

if TYPE_CHECKING:
    from pytest_compileiq.model import LockClocks

DEFAULT_BUDGET = 200
MARKER_ARGUMENTS = (
    "name", "space", "where", "workloads", "objectives", "engine", "engine_options", "budget", "seed",
    "stress", "repeats", "weight", "timeout_s", "min_speedup", "min_effect", "alpha", "max_regression", "limits",
)  # fmt: skip
"""Of ``@pytest.mark.tune``, beside the toolchain."""

OPTIONS_KEY = "acf_options"
# Texts, compiled when one is used: every run of pytest imports this module.
_ENTRY = r"--?[A-Za-z][A-Za-z0-9_.,+=-]{0,199}"
# One value, and never a second "=", after which some options take a file.
_VALUE = r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,39}"

BATCH = 4  # evaluations that a night asks an engine for at once, and the least that it can spend
MOST_EVALUATIONS, MOST_SECONDS = 10**9, 365 * 24 * 3600  # of any budget
LOCKABLE_MHZ = range(100, 10_001)  # wider than any GPU's clocks
Setting = TypeVar("Setting")


def seed_of_coins(given: int | None) -> int:
    """The given seed, or a fresh one."""
    from secrets import randbits  # heavy, and the command line draws nothing

    # An order that favours one arm must not be the same order in every run.
    return randbits(32) if given is None else given


def chosen(command_line: Setting | None, marker: Setting | None, otherwise: Setting) -> Setting:
    """The value of one setting: the command line's, else the marker's, else the ini file's or the default."""
    return next((value for value in (command_line, marker) if value is not None), otherwise)


class Budget(NamedTuple):
    """How much a search may spend; zero evaluations proves what is committed. Without either a night stops it."""

    evaluations: int | None = None
    seconds: float | None = None

    @property
    def proof_only(self) -> bool:
        """Whether no search is wanted."""
        return self.evaluations == 0

    def __str__(self) -> str:
        from pytest_compileiq.spelling import quantity  # only a search says its budget

        return quantity(self.evaluations or 0, "evaluation") if self.seconds is None else f"{self.seconds:g} s"


class Settings:
    """The command line and the ini file, checked; frozen."""

    tune: bool
    new_only: bool
    stale_only: bool
    fresh: bool
    budget: Budget | None
    total: Budget | None
    ini_budget: Budget
    engine: str | None
    start_from: Path | None
    trackers: tuple[str, ...]
    calibrate: int | None
    ini_engine: str
    seed: int | None
    draw: int | None
    jobs: int
    reduce: bool
    check: str
    stale: str
    missing: str
    orphans: str
    no_device: str
    inconclusive: str
    lock_clocks: LockClocks
    where: str | None  # the Ray cluster of the workers, as in --tune-on; None for this machine alone
    acf_dir: Path
    options: tuple[str, ...]
    ini_file: Path | None
    report: Path | None
    html: Path | None
    arms: Path | None
    adopt: bool
    rootdir: Path

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings are frozen: {name}")


def parse_budget(
    text: str, where: str, expected: str = "a number of evaluations (200), a time (90s, 30m, 2h) or 0"
) -> Budget:
    """``200`` → evaluations, ``90s``/``30m``/``2h`` → seconds.

    Raises:
        UserError: anything else, which is told what was ``expected``; or more than anyone can spend.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([smh]?)\s*", text)
    if match is None or (match[2] and int(match[1]) == 0):
        raise UserError(f"{where}={text!r}: expected {expected}")
    unit = {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
    most = (MOST_SECONDS if match[2] else MOST_EVALUATIONS) // unit
    if len(match[1]) > len(str(MOST_EVALUATIONS)) or int(match[1]) > most:
        raise UserError(f"{where} is more than anyone can spend: at most {most}{match[2]}")
    number = int(match[1]) * unit
    return Budget(seconds=float(number)) if match[2] else Budget(evaluations=number)


class NamedOptions(NamedTuple):
    """The ``acf_options`` that maintainers let into controls files: an option, or the beginning of one up to its ``=``.

    ``where`` names the section and the file that set them, or would; ``as_list``: a value is a list of TOML there.
    """

    entries: tuple[str, ...] = ()
    where: str = "[pytest] of pytest.ini"
    as_list: bool = False

    def hold(self, option: str) -> bool:
        """Whether the maintainers named ``option``."""
        return any(
            option == entry
            or (entry.endswith("=") and option.startswith(entry) and re.fullmatch(_VALUE, option[len(entry) :]))
            for entry in self.entries
        )

    def line_for(self, *options: str) -> str:
        """The line of settings that lets ``options`` in, with what is let in already."""
        parts = [option.rpartition("=") for option in options]
        new = (
            f"{name}=" if equals and re.fullmatch(_VALUE, value) else name + equals + value
            for name, equals, value in parts
        )
        entries = list(dict.fromkeys([*self.entries, *new]))
        return f"{OPTIONS_KEY} = {json.dumps(entries) if self.as_list else shlex.join(entries)}"


def why_no_entries(entries: Sequence[str]) -> str | None:
    """Why one of ``entries`` cannot stand in ``acf_options``, or None."""
    if (entry := next((entry for entry in entries if not re.fullmatch(_ENTRY, entry)), None)) is None:
        return None
    return (
        f"{entry!r} is neither an option nor the beginning of one: expected letters, digits and _.,+=- behind a -, "
        "as in -fno-tree-ter or -ftree-parallelize-loops="
    )
