"""How a worker builds for another machine: with the compiler that is here, and without entering the test."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.afar import Afar
from pytest_compileiq.benchmark.benchmark import TunedBenchmark, make_benchmark
from pytest_compileiq.benchmark.build_identity import identity_of
from pytest_compileiq.benchmark.elsewhere import collected
from pytest_compileiq.errors import BuildError, CompileIQError
from pytest_compileiq.workers.messages import Failed, Identified, Identify, Made, NotMade, Query

# Beside what was brought here, which is of the same names.
_FOLDER = "made-here"


def answer(item: pytest.Item, builds: Path, query: Query) -> Identified | Made | NotMade | Failed:
    """In a worker: what the builds of ``item`` depend on here, or one of them."""
    try:
        flags = None if query.host_flags is None else tuple(sorted(query.host_flags.items()))
        benchmark = _benchmark(item, builds / _FOLDER, flags)
        if isinstance(query, Identify):
            meant = benchmark.builder.host_flags
            return Identified(identity_of(benchmark.builder, benchmark.rootdir), dict(meant))
        built = benchmark.builds.get(query.controls)
        home = benchmark.builds.made(query.controls)
        made = Made(collected(built, home))
        if query.controls is not None:  # the baseline may be asked for beside another one
            shutil.rmtree(home)
        return made
    except BuildError as error:
        return NotMade(str(error), error.kind, error.log)
    except (CompileIQError, OSError) as error:  # there is no such compiler here, or no room
        return Failed(str(error))


@lru_cache(maxsize=64)
def _benchmark(
    item: pytest.Item, folder: Path, host_flags: tuple[tuple[str, tuple[str, ...]], ...] | None
) -> TunedBenchmark:
    flags = None if host_flags is None else dict(host_flags)
    return make_benchmark(item, rootdir=item.config.rootpath, build_dir=folder, afar=Afar(host_flags=flags))
