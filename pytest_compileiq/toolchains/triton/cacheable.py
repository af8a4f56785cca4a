"""The inputs of builds by Triton, for the build cache: the output of its front end, and ptxas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_compileiq.model import BuildResult, ControlsFile
from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.toolchains.base import CacheableBuild
from pytest_compileiq.toolchains.environment import keyed_environment
from pytest_compileiq.toolchains.nvidia.builder import ACF
from pytest_compileiq.toolchains.nvidia.cacheable import content_of, expect_modelled_by, read_at_the_start
from pytest_compileiq.toolchains.steps import asked_everywhere, code_of
from pytest_compileiq.toolchains.triton.front_end import REFUSED
from pytest_compileiq.toolchains.triton.host import CUBIN, FRONT_END, LAUNCH


class TritonBuild(CacheableBuild, frozen=True):
    """One build by Triton."""

    command: tuple[str, ...]  # as it is recorded
    ptxas: str  # the program
    controls: ControlsFile | None  # None for the baseline
    front_ends: Mapping[str, str]  # name of a build's files → output of the front end
    remarks: Sequence[str]  # of the front end
    variables: Mapping[str, str]  # of the environment, as an artifact records them
    sources: Mapping[str, str]  # as an artifact records them: a new module may leave the front end's output as it is
    files: frozenset[Path]  # the paths of the sources
    rootdir: Path

    def question(self) -> Mapping[str, Sequence[str]]:
        for told in map(json.loads, self.front_ends.values()):
            if REFUSED in told:
                raise NotModelled(told[REFUSED])
            expect_modelled_by("ptxas", (word for word in told["ptx_options"] if not word.startswith(ACF)))
        return {
            "command": [*self.command, self.ptxas],
            "front end": [word for answer in self.front_ends.items() for word in answer],
            "remarks": self.remarks,
            "sources": [word for source in self.sources.items() for word in source],
            "controls": content_of(self.controls),
            "adapter": [code_of("triton")],
            **asked_everywhere(self.rootdir, "nvidia", {**keyed_environment(), **self.variables}),
        }

    def inputs(self) -> tuple[Inputs, Inputs]:
        files = Inputs(frozenset(map(str, self.files)))
        own, others = files.parted(lambda path: Path(path).is_relative_to(self.rootdir))
        return own, others | read_at_the_start([self.ptxas], keyed_environment(), self.rootdir)

    def also_loaded(self, built: BuildResult) -> Sequence[Path]:
        return [built.path.parent / f"{name}.{kind}" for name in self.front_ends for kind in (CUBIN, LAUNCH)]

    def is_of(self, built: BuildResult) -> bool:
        folder = built.path.parent
        try:  # a file may have changed since the cache was asked
            return all(
                (folder / f"{name}.{FRONT_END}").read_text(encoding="utf-8") == answer
                for name, answer in self.front_ends.items()
            )
        except OSError:
            return False
