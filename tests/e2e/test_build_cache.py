"""A replay that changes nothing builds nothing, and says so."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from bench.build_cache import through
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.seen_files import SeenFiles
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from tests.files import write_files
from tests.projects import Project

pytestmark = pytest.mark.slow

FROM_THE_CACHE = "1 × same inputs as a build of 2"
ANEW = "not built again: --acf-check=rebuild"


@pytest.fixture(scope="module")
def _filled_once(tmp_path_factory: pytest.TempPathFactory, _tuned_once: Path) -> Path:
    root = tmp_path_factory.mktemp("filled") / "project"
    shutil.copytree(_tuned_once, root)
    output = Project(root).pytest("--acf-check=replay", code=0)
    assert ANEW not in output
    return root


@pytest.fixture
def filled(_filled_once: Path) -> Project:
    """One project for all tests here, since keys hold where it lies; each leaves it as it was."""
    return Project(_filled_once)


def test_a_second_run_builds_nothing_and_says_so(filled):
    output = filled.pytest("--acf-check=replay", "--acf-report=report.json", code=0)
    assert FROM_THE_CACHE in output
    assert ANEW in output
    (item,) = json.loads((filled.root / "report.json").read_text())["items"]
    (build,) = [check for check in item["checks"] if check["name"] == "build"]
    assert build["status"] == "cached"
    assert item["message"].startswith("same inputs as a build of 2")


def test_an_edit_is_built_and_what_is_reverted_was_built(filled):
    filled.edit("kernel.h", "2.0f", "2.0f /* twice */")
    assert ANEW not in filled.pytest("--acf-check=replay", code=0)
    filled.edit("kernel.h", "2.0f /* twice */", "2.0f")
    assert FROM_THE_CACHE in filled.pytest("--acf-check=replay", code=0)


def test_a_build_that_is_not_kept_is_told_with_its_file_until_it_is(filled):
    filled.edit("kernel.h", "2.0f", '2.0f\n#define READ __asm__(".inc" "bin \\"x\\"")\n#define WHEN __DATE__')
    assert "1 × builds that are not kept: acf cache says why" in filled.pytest("--acf-check=replay", code=0)
    shown = filled.acf("cache")
    assert "2 builds are not kept, and made in every run:" in shown
    assert f"  2 × {filled.root}/kernel.h: it holds the time of its build" in shown
    assert list(json.loads(filled.acf("cache", "--format", "json"))["not_kept"].values()) == [2]
    filled.edit("kernel.h", '2.0f\n#define READ __asm__(".inc" "bin \\"x\\"")\n#define WHEN __DATE__', "2.0f")
    assert "not kept" not in filled.pytest("--acf-check=replay", code=0)
    assert "not kept" not in filled.acf("cache")


def test_an_edit_that_changes_code_is_stale_as_ever(filled):
    filled.edit("kernel.c", "1.0f", "1.5f")
    try:
        assert "the machine code is another" in filled.pytest("--acf-check=replay", code=1)
    finally:
        filled.edit("kernel.c", "1.5f", "1.0f")


def test_a_damaged_entry_costs_a_build(filled):
    for stored in BuildCache(filled.root).stored():
        stored.path.write_bytes(stored.path.read_bytes()[:-1])
    assert ANEW not in filled.pytest("--acf-check=replay", code=0)


def test_a_rebuild_builds_all_and_names_what_differs(filled):
    assert ANEW not in filled.pytest("--acf-check=rebuild", code=0)
    cache = BuildCache(filled.root)
    for stored in cache.stored():
        found = cache.find(stored.path.parent.name, SeenFiles())
        if found is not None:
            path, entry = found
            code = {name: replace(digest, sha256="0" * 64) for name, digest in entry.code.items()}
            cache.remove(path)
            cache.keep(path.parent.name, structs.replace(entry, code=code))
    output = filled.pytest("--acf-check=rebuild", code=1)
    assert "the build cache and a rebuild differ" in output
    assert ".compileiq/builds/" in output
    assert "other machine code in kernel" in output
    shutil.rmtree(filled.root / ".compileiq" / "builds")
    filled.pytest("--acf-check=replay", code=0)


def test_without_a_place_for_it_all_is_built(tuned):
    shutil.rmtree(tuned.root / ".compileiq")
    (tuned.root / ".compileiq").write_text("a file")
    for _ in range(2):
        assert ANEW not in tuned.pytest("--acf-check=replay", code=0)


def test_the_command_shows_what_is_kept_and_speaks_json(tuned):
    tuned.pytest("--acf-check=replay", code=0)
    assert ".compileiq/builds: 2 builds, 0." in tuned.acf("cache")
    shown = json.loads(tuned.acf("cache", "--format", "json"))
    assert (shown["schema"], shown["builds"], shown["not_kept"]) == (1, 2, {})


def test_an_edited_header_rebuilds_exactly_what_reads_it(tmp_path):
    """Eight sources: each reads a header of its own, and the odd ones another of all of them."""
    of_all = {number: '#include "odd.h"\n' if number % 2 else "" for number in range(8)}
    sources = {
        f"k{number}.c": f'#include "h{number}.h"\n{more}int kernel(int x) {{ return x + OWN; }}\n'
        for number, more in of_all.items()
    }
    headers = {f"inc/h{number}.h": f"#define OWN {number}\n" for number in range(8)}
    write_files(tmp_path, sources | headers | {"inc/odd.h": "#define ODD 1\n"})

    def built() -> set[int]:
        builds = CachedBuilds(BuildCache(tmp_path), seen=SeenFiles(settled_ns=0))
        return {number for number in range(8) if not cached(builds, number)}

    def cached(builds: CachedBuilds, number: int) -> str:
        builder = resolve(Cc(f"k{number}.c", flags="-O1 -Iinc"), Place(tmp_path, tmp_path))
        out_dir = tmp_path.parent / f"{tmp_path.name}-out" / str(number)
        return through(builds, builder, out_dir, lambda: builder.build(None, out_dir, timeout_s=60.0))[0].cached

    assert built() == set(range(8))
    assert built() == set()
    (tmp_path / "inc/odd.h").write_text("#define ODD 2\n")
    assert built() == {1, 3, 5, 7}
    (tmp_path / "inc/h4.h").write_text("#define OWN 44\n")
    assert built() == {4}
    (tmp_path / "h2.h").write_text("#define OWN 22\n")  # beside its source, and so found first
    assert built() == {2}
    (tmp_path / "inc/h4.h").write_text("#define OWN 4\n")
    (tmp_path / "h2.h").unlink()
    assert built() == set()
