"""What has to be fixed before the held-out half is run: the engine's code, and the list itself."""

import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest_compileiq
from race_data import DATA
from race_objectives import Objective

FROZEN = DATA / "race-frozen.json"
PACKAGE = Path(pytest_compileiq.__file__).parent
ROOMS = ("engines", "space", "machine_code")
FIRST_FREE_SEED = 1000  # of random search, by which alone held-out objectives may be looked at


def freeze(held_out: Iterable[Objective]) -> None:
    """Write what is raced and with which code, to be committed before the first run.

    Raises:
        SystemExit: the engine's code is not committed.
    """
    changed = _git("status", "--porcelain", *(str(PACKAGE / room) for room in ROOMS))
    if changed:
        raise SystemExit(f"the engine's code is not committed, so it cannot be frozen: git commit it first\n{changed}")
    frozen = {
        "commit": _git("rev-parse", "HEAD"),
        "engine": engine_digest(),
        "held_out": {objective.name: objective.digest for objective in held_out},
    }
    FROZEN.write_text(json.dumps(frozen, indent=2) + "\n", encoding="utf-8")
    print(f"{FROZEN.name}: {frozen['commit'][:12]} and {len(frozen['held_out'])} objectives; commit it, then run them")


def check_frozen(held_out: Iterable[Objective], engines: Iterable[str], first_seed: int) -> None:
    """Refuse a run of the held-out half that is not of what was frozen; random search on free seeds needs no freeze.

    Raises:
        SystemExit: it may not be run.
    """
    if set(engines) == {"random"} and first_seed >= FIRST_FREE_SEED:
        return
    if not FROZEN.exists():
        raise SystemExit("the held-out half is run once, by an engine that is frozen: python bench/race.py freeze")
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    if _git("status", "--porcelain", str(FROZEN)):
        raise SystemExit(f"{FROZEN.name} is not committed: git commit it before the held-out half is run")
    if engine_digest() != frozen["engine"]:
        raise SystemExit(
            f"the engine's code differs from what is frozen, {frozen['commit'][:12]}: a second engine needs new "
            f"held-out objectives, or git checkout {frozen['commit'][:12]} -- pytest_compileiq"
        )
    for objective in held_out:
        if frozen["held_out"].get(objective.name) != objective.digest:
            raise SystemExit(f"the held-out objective {objective.name} is not the one that is frozen")


def engine_digest() -> str:
    """SHA-256 of the code, and of what was learned, that decide what our engines ask for."""
    rooms = [PACKAGE / room for room in ROOMS]
    files = sorted(path for room in rooms for kind in ("*.py", "*.csv") for path in room.rglob(kind))
    parts = [str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() for path in files]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(DATA), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
