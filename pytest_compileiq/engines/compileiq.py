"""NVIDIA's CompileIQ as an engine: the only one that can draw from the compilers' opaque spaces.

The package runs in a process of its own and is spoken to through its public ask and tell, so that its import, its
multiprocessing and its logging never touch the user's pytest.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_compileiq.engines import compileiq_host
from pytest_compileiq.engines.base import Brief, Told, integer_options
from pytest_compileiq.errors import EnvironmentFault, MarkerError, install
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, SEARCH_SPACES_TAG, Space

_OPTIONS = {"pool_size": (6, 10_000), "generations": (1, 1_000_000)}
_MOST_REFUSED = 2000  # draws in a row, which take 10 s


class CompileIQ:
    """A search by NVIDIA's package over named knobs, an opaque space, or both.

    Options have CompileIQ's names: ``pool_size`` (the batch of a generation, at least 6) and ``generations``.

    Raises:
        EnvironmentFault: the package is not installed, or a search space cannot be had.
        MarkerError: an option is unknown.
    """

    def __init__(self, brief: Brief) -> None:
        if importlib.util.find_spec("compileiq") is None:
            raise EnvironmentFault(
                f"the engine 'compileiq' is NVIDIA's package, which is not installed: {install('compileiq')}"
            )
        options = integer_options("compileiq", brief, _OPTIONS)
        self._space = space = brief.space
        self._seeds = [seed for seed in brief.seeds if seed.blob is not None or space.why_not(seed.knobs) is None]
        # By identity: a blob may be drawn twice, and the package scores draws, not blobs.
        self._pending: dict[int, tuple[Candidate, str]] = {}
        self._ended = False
        self._drawn = 0
        self._home = tempfile.TemporaryDirectory(prefix="compileiq-engine-")
        self._log = Path(self._home.name) / "log"
        with self._log.open("wb") as log:
            # Outside the run's guard, which would take it for something that a candidate left behind. It ends when its
            # standard input does, so with this process, however this one ends.
            self._process = subprocess.Popen(
                [sys.executable, "-I", compileiq_host.__file__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self._home.name, text=True,
                start_new_session=True,
            )  # fmt: skip
        weakref.finalize(self, _end, self._process, self._home)  # nothing of the package outlives its engine
        try:
            self._talk({
                "opaque": asdict(space.opaque) if space.opaque else None,
                "knobs": described(space),
                "objectives": brief.n_objectives,
                "cache": self._home.name,
                "sys_path": sys.path,
                "pool_size": options.get("pool_size"),
                "generations": options.get("generations", _OPTIONS["generations"][1]),
            })  # fmt: skip
        except EnvironmentFault as error:
            what = space.opaque or "a search by CompileIQ"
            raise EnvironmentFault(
                f"{what} cannot be had: {error}; with no network, get the files of the release {SEARCH_SPACES_TAG} of "
                "NVIDIA/CompileIQ elsewhere and set CIQ_SEARCH_SPACES_DIR to their directory"
            ) from error

    def ask(self, n: int) -> list[Candidate]:
        if self._seeds:
            seeds, self._seeds = self._seeds[:n], self._seeds[n:]
            return seeds
        if self._ended:
            return []
        refused = 0
        while refused < _MOST_REFUSED and not self._ended:
            candidates, outside = self._draw(n)
            if candidates:
                return candidates
            refused += outside
        if refused and not self._drawn:
            raise MarkerError(
                f"engine 'compileiq' drew {refused} candidates, and where= refuses each of them: narrow the values in "
                "space=, or use --tune-engine=ga, which draws within where="
            )
        self._ended = True
        return []

    def _draw(self, n: int) -> tuple[list[Candidate], int]:
        """What the package draws, and how many draws ``where=`` refuses: these are told as invalid at once."""
        answer = self._talk({"ask": n})
        self._ended = answer["ended"]
        candidates, refused = [], []
        for drawn in answer["candidates"]:
            knobs = knobs_of(self._space, drawn["knobs"])
            if self._space.where is not None and self._space.why_not(knobs) is not None:
                refused.append({"id": drawn["id"], "score": None})
                continue
            blob = bytes.fromhex(drawn["blob"]) if drawn["blob"] is not None else None
            candidate = Candidate(knobs, blob, origin="compileiq")
            self._pending[id(candidate)] = (candidate, drawn["id"])
            candidates.append(candidate)
        if refused:
            self._talk({"tell": refused})
        self._drawn += len(candidates)
        return candidates, len(refused)

    def tell(self, results: Sequence[Told]) -> None:
        scores = [
            {"id": self._pending.pop(id(told.candidate))[1], "score": list(told.scores) if told.scores else None}
            for told in results
            if id(told.candidate) in self._pending
        ]
        if scores:
            self._talk({"tell": scores})

    def checkpoint(self) -> bytes:
        state = self._talk({"checkpoint": True})["state"]
        return json.dumps({"seeds": len(self._seeds), "drawn": self._drawn, "state": state}).encode()

    def restore(self, state: bytes) -> None:
        held = json.loads(state)
        self._seeds = self._seeds[len(self._seeds) - held["seeds"] :]
        self._drawn = held["drawn"]
        self._talk({"restore": held["state"]})

    def _talk(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise EnvironmentFault(f"CompileIQ ended unexpectedly: {said[-1][:300] if said else 'it said nothing'}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EnvironmentFault(f"CompileIQ: {answer['error']}")
        return answer


def _end(process: subprocess.Popen[str], home: tempfile.TemporaryDirectory[str]) -> None:
    process.kill()
    process.communicate()
    home.cleanup()


def described(space: Space) -> list[dict[str, Any]]:
    """The genes as the package's process rebuilds them: by index, since it would turn booleans into numbers."""
    return [
        {
            "name": str(number), "parent": gene.parent, "switch": gene.kind == "switch", "count": len(gene.values),
            "ordered": gene.kind in ("ordinal", "integer", "log"), "knockout_prob": gene.knockout_prob,
        }
        for number, gene in enumerate(space.genes)
    ]  # fmt: skip


def knobs_of(space: Space, drawn: Mapping[str, int]) -> dict[str, Any]:
    """The knobs of indices drawn by gene number; what is absent is off."""
    point = [int(drawn.get(str(number), OFF)) for number in range(len(space.genes))]
    for number in range(len(point) - 1, -1, -1):
        parent = space.genes[number].parent
        if parent is not None and point[number] != OFF:
            point[parent] = 0
    return space.knobs(point)
