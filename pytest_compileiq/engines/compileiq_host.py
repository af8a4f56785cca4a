"""The process that NVIDIA's package lives in: JSON lines in, JSON lines out. It runs as a script.

Everything the package or its libraries print goes to standard error, which the parent keeps in a file.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    host: _Host | None = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if host is None:
                sys.path[:] = message["sys_path"]
                host, answer = _Host(message), {}
            else:
                (verb, value), *_ = message.items()
                answer = getattr(host, verb)(value)
        except Exception as error:  # every failure of the package is one sentence to the parent
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    shutil.rmtree(Path.cwd(), ignore_errors=True)  # as the parent does, unless it was killed


class _Host:
    def __init__(self, start: Mapping[str, Any]) -> None:
        from compileiq.ciq import Search
        from compileiq.types import SearchConfiguration, WorkerTypes

        self.home = Path(start["cache"])
        self.objectives: int = start["objectives"]
        spaces = [_user_space(start["knobs"])] if start["knobs"] else []
        if opaque := start["opaque"]:
            from compileiq.search_spaces import compilers

            kind = {"ptxas": compilers.PtxasSearchSpace, "nvcc": compilers.NvccSearchSpace}[opaque["compiler"]]
            spaces.append(kind(version=opaque["version"], variant=opaque["variant"], tag=opaque["tag"]))
        self.parts = [kind for kind in ("knobs", "opaque") if start[kind]]
        pool = {"pool_size": start["pool_size"]} if start["pool_size"] else {}
        self.search = Search(
            objective_function=print,
            search_space=spaces if len(spaces) > 1 else spaces[0],
            search_config=SearchConfiguration(generations=start["generations"], num_objectives=self.objectives, **pool),
            worker_type=WorkerTypes.MANUAL,
            cache_folder=start["cache"],
            disable_progress_bar=True,
            exit_on_failure=False,
        )

    def ask(self, count: int) -> dict[str, Any]:
        from compileiq.backends import BackendCapabilityError, SearchSpaceExhaustedError

        try:
            asked = self.search.ask(count)
        except (SearchSpaceExhaustedError, BackendCapabilityError):
            return {"candidates": [], "ended": True}
        return {"candidates": [self._drawn(candidate) for candidate in asked], "ended": not asked}

    def tell(self, scores: list[Mapping[str, Any]]) -> dict[str, Any]:
        from compileiq.types import INVALID_SCORE, Score

        def score(given: list[float] | None) -> Any:
            if given is None:
                return INVALID_SCORE if self.objectives == 1 else [INVALID_SCORE] * self.objectives
            return float(given[0]) if self.objectives == 1 else [float(value) for value in given]

        self.search.tell([
            Score(score=score(result["score"]), param_id=result["id"], num_objectives=self.objectives)
            for result in scores
        ])  # fmt: skip
        return {}

    def checkpoint(self, _: object) -> dict[str, Any]:
        path = self.search.save_checkpoint(self.home / "checkpoint")
        return {"state": base64.b64encode(Path(path).read_bytes()).decode()}

    def restore(self, state: str) -> dict[str, Any]:
        path = self.home / "restored"
        path.write_bytes(base64.b64decode(state))
        self.search.restore_checkpoint(path, pending_policy="discard")
        return {}

    def _drawn(self, candidate: Any) -> dict[str, Any]:
        parts = candidate.params if len(self.parts) > 1 else [candidate.params]
        by_kind = dict(zip(self.parts, parts, strict=True))
        return {"id": candidate.param_id, "knobs": _flat(by_kind.get("knobs", {})), "blob": by_kind.get("opaque")}


def _user_space(genes: list[Mapping[str, Any]]) -> dict[str, Any]:
    from compileiq.search_spaces import base

    tops: dict[str, Any] = {}
    groups: dict[int, dict[str, Any]] = {}
    for number, gene in enumerate(genes):
        inside = tops if gene["parent"] is None else groups[gene["parent"]]
        knockout = gene["knockout_prob"] or None
        if gene["switch"]:
            inside[gene["name"]] = groups[number] = {}
        elif gene["count"] == 1:
            inside[gene["name"]] = base.literal(0, knockout_prob=knockout)
        elif gene["ordered"]:
            inside[gene["name"]] = base.range(0, gene["count"] - 1, 1, knockout_prob=knockout)
        else:
            inside[gene["name"]] = base.choice(list(range(gene["count"])), knockout_prob=knockout)
    return tops


def _flat(drawn: Mapping[str, Any]) -> dict[str, int]:
    flat: dict[str, int] = {}
    for name, value in drawn.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: int(value)}
    return flat


if __name__ == "__main__":
    main()
