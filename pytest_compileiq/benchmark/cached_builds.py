"""What builds depend on: by the same inputs, the build cache has what another run made, and machines build alike."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import BuildError, CacheMismatch
from pytest_compileiq.model import BuildResult, Compiler, ControlsFile
from pytest_compileiq.rules.build_key import Inputs, NotModelled, key_of
from pytest_compileiq.store.build_cache import BuildCache, CacheEntry, Installed
from pytest_compileiq.system.seen_files import SeenFiles, Signature, signature_of
from pytest_compileiq.toolchains.base import Builder, CacheableBuild

# Of a toolchain that counts some metrics by programs that no key holds, those that it counts without them.
CACHED_METRICS = frozenset({"code_bytes"})

Signatures = Mapping[str, Signature | None]
_Asked = tuple[CacheableBuild, str]  # what a build depends on, and its key
Missed = _Asked | NotModelled | None  # None where nothing was asked


class CachedBuild(Struct, frozen=True):
    """A build that the cache has. Its files lie there until they are put where they would have been built."""

    entry: CacheEntry
    out_dir: Path

    @property
    def built(self) -> BuildResult:
        """The build."""
        of = self.entry
        return BuildResult(self.out_dir / next(iter(of.sizes)), of.code, of.metrics, of.log, of.seconds, cached=of.when)

    def put(self) -> BuildResult:
        """The build, whose files are now there."""
        self.out_dir.mkdir(parents=True, exist_ok=True)
        for name, content in self.entry.contents():
            (self.out_dir / name).write_bytes(content)
        self.built.path.chmod(0o755)
        return self.built


class NewBuild(Struct, frozen=True):
    """A new build."""

    built: BuildResult
    sources: Mapping[str, str] | None  # of it, where they are known with it
    why_not_kept: str | None = None  # what it may depend on that the cache does not know; None where there is nothing


class CachedBuilds(Struct):
    """The builds of a run that come from the build cache, or go into it."""

    cache: BuildCache  # of the project
    rebuilds: bool = False  # whether every build is made again, and held against what the cache has for the same inputs
    seen: SeenFiles = msgspec.field(default_factory=SeenFiles)
    _has_kept: bool = False

    def find(self, builder: Builder, controls: ControlsFile | None, out_dir: Path) -> CachedBuild | Missed:
        """The build that the cache has, to be put into ``out_dir``; else what was learnt, if it may be asked."""
        if self.rebuilds:
            return None
        try:
            asked = _asked(builder, controls)
        except NotModelled as reason:
            return reason
        cached = self.cache.find(asked[1], self.seen)
        return CachedBuild(cached[1], out_dir) if cached else asked

    def make(
        self, builder: Builder, controls: ControlsFile | None, asked: Missed, make: Callable[[], BuildResult]
    ) -> NewBuild:
        """A new build with ``controls``, made by ``make``, which is kept if all that it depends on is known.

        Args:
            asked: what ``find`` learnt: to ask anew may take a preprocessing, or a compiler's time limit.

        Raises:
            BuildError: it failed.
            CacheMismatch: it is not what the cache has for the same inputs.
        """
        try:
            if isinstance(asked, NotModelled):
                raise asked
            build, key = asked or _asked(builder, controls)
            self.cache.make_ready()
            cached = self.cache.find(key, self.seen) if self.rebuilds else None
            inputs = build.inputs()
        except NotModelled as reason:
            return NewBuild(make(), None, str(reason))
        new, entry = self._made(build, inputs, builder, controls, make)
        if cached is not None:
            self._expect_the_same(cached, new.built)
        elif entry is not None:
            self._has_kept |= self.cache.keep(key, entry)
        return new

    def close(self) -> None:
        """Remove what was not used for longest, if something was added."""
        if self._has_kept:
            self.cache.trim()

    def _made(
        self,
        build: CacheableBuild,
        inputs: tuple[Inputs, Inputs],
        builder: Builder,
        controls: ControlsFile | None,
        make: Callable[[], BuildResult],
    ) -> tuple[NewBuild, CacheEntry | None]:
        """A new build, and what may be kept of it."""
        own, installed = inputs
        # Looked up before the build and behind it: nothing is kept if an input changed meanwhile.
        begun_ns, before = time.time_ns(), _signatures(own | installed)
        built = make()
        known, as_installed = self._digests(own), self._digests(installed)
        sources = dict(builder.sources() if controls is None else builder.sources_with(controls))
        is_all_known = len(known) == len(own.files) and len(as_installed) == len(installed.files)
        is_of_these = set(sources.values()) <= {*known.values(), *as_installed.values()}
        try:
            is_as_asked = build.is_of(built)
        except NotModelled as reason:
            return NewBuild(built, None, str(reason)), None
        is_one = is_as_asked and _inputs_of(build) == inputs and _signatures(own | installed) == before
        has_settled = all(
            signature is None or self.seen.has_settled(signature, begun_ns) for signature in before.values()
        )
        if not (is_all_known and is_of_these and is_one and has_settled and self._are_absent(own | installed)):
            return NewBuild(built, None), None
        contents = {path.name: path.read_bytes() for path in (built.path, *build.also_loaded(built))}
        return NewBuild(built, sources), CacheEntry(
            files=known,
            absent=_in_order(own.absent),
            installed=Installed(as_installed, _in_order(installed.absent)).encoded(),
            sources=sources,
            code=built.code,
            metrics=built.metrics,
            log=built.log,
            seconds=built.seconds,
            built_at=int(time.time()),
            sizes={name: len(content) for name, content in contents.items()},
            data=b"".join(contents.values()),
        )

    def _digests(self, inputs: Inputs) -> dict[str, str]:
        digests = {path: self.seen.digest(path) for path in sorted(inputs.files)}
        return {path: sha256 for path, sha256 in digests.items() if sha256 is not None}

    def _are_absent(self, inputs: Inputs) -> bool:
        return all(self.seen.names(directory).isdisjoint(names) for directory, names in inputs.absent.items())

    def _expect_the_same(self, cached: tuple[Path, CacheEntry], built: BuildResult) -> None:
        path, entry = cached
        moved = sorted(
            name for name in entry.code.keys() | built.code.keys() if entry.code.get(name) != built.code.get(name)
        )
        if not moved and entry.metrics == built.metrics:
            return
        self.cache.remove(path)
        what = f"other machine code in {', '.join(moved)}" if moved else f"other metrics, {dict(built.metrics)}"
        raise CacheMismatch(
            f"the build cache and a rebuild differ: {path}, built {entry.when}, and {built.path.name}, built now "
            f"of the same inputs, which has {what}; the entry is removed: run the test again, and report what the "
            "compiler reads that the cache does not know"
        )


def _asked(builder: Builder, controls: ControlsFile | None) -> _Asked:
    """What the build depends on, and its key."""
    build = builder.cacheable(controls)
    return build, key_of(build.question())


def _inputs_of(build: CacheableBuild) -> tuple[Inputs, Inputs] | None:
    with suppress(NotModelled):
        return build.inputs()
    return None


def _signatures(inputs: Inputs) -> Signatures:
    paths: Iterable[str] = (*inputs.files, *inputs.absent)
    return {path: signature_of(path) for path in paths}


def _in_order(absent: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {directory: tuple(sorted(names)) for directory, names in sorted(absent.items())}


# ── what decides what a machine builds of a benchmark, wherever the project lies there ───────────────────────────

# Equal identities, equal builds. These are the compiler, the resolved command, and for a toolchain that tells its
# inputs all that the key of the build cache holds, and the contents of what is read, with the paths of the project
# relative. Where something was looked for in vain, on PATH too, tells builds apart that are made at different times;
# here what was found is compared instead.
_SHOWN = ("compiler", "command", "target", "inputs", "environment")  # as they are; of the others a digest
_FINDS = "PATH="
_IN_WORDS = {"installed": "content of the compiler's files", "project": "content of the project's files"}


def identity_of(builder: Builder, rootdir: Path) -> dict[str, str]:
    """What decides the builds of ``builder``, by name: words, or the digest of what is too long for words."""
    told = {
        "compiler": identity_of_compiler(builder.compiler),
        "command": shlex.join(builder.compiler.command),
        "target": str(builder.target),
    }
    if not builder.is_modelled:
        return told
    try:
        build = builder.cacheable(None)
        question, (own, installed) = build.question(), build.inputs()
    except NotModelled as reason:
        return told | {"inputs": _without(str(reason), rootdir)}
    told["inputs"] = "modelled"
    for name, words in question.items():
        text = " ".join(_without(word, rootdir) for word in words if not word.startswith(_FINDS))
        told[name] = text if name in _SHOWN else _digest([text])
    return told | {"installed": _content(installed, rootdir), "project": _content(own, rootdir)}


def identity_of_compiler(compiler: Compiler) -> str:
    """A compiler, so that another one is told by it."""
    return f"{compiler.name} {compiler.version} ({compiler.build})"


def why_other(there: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """What another machine builds with otherwise than this one, in words; None where nothing is."""
    for name in (*here, *there):
        if there.get(name) != here.get(name):
            if name in _SHOWN:
                return f"its {name}: {there.get(name, 'unknown')} (here {here.get(name, 'unknown')})"
            return f"it has another {_IN_WORDS.get(name, name)}"
    return None


def told_by_a_second(baseline: BuildResult, builder: Builder, timeout_s: float) -> str:
    """What building the baseline once more tells of inputs that no record names, in words."""
    with TemporaryDirectory() as directory:
        try:
            again = builder.build(None, Path(directory), timeout_s=timeout_s)
        except BuildError as error:
            return f"a second build of the baseline failed ({error})"
    if again.digest != baseline.digest:
        return "two builds of the baseline differ here, so that the build is not reproducible"
    return (
        "two builds of the baseline are equal here, so that something differs which no record names: an installed "
        "header or library, or a program that the compiler runs"
    )


def _content(inputs: Inputs, rootdir: Path) -> str:
    seen = SeenFiles()
    return _digest(sorted(f"{_without(path, rootdir)} {seen.digest(path)}" for path in inputs.files))


def _without(text: str, rootdir: Path) -> str:
    """``text`` with the project's own path as ``.``, however it is spelled."""
    for spelling in sorted({str(rootdir), os.path.realpath(rootdir)}, key=len, reverse=True):
        text = text.replace(spelling, ".")
    return text


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode(errors="surrogateescape")).hexdigest()
