"""The artifacts on disk: ``acf/<name>/<target>.toml`` and the files it names. Everything read is untrusted.

The metadata is the commit point: controls and samples are written first under digest-bearing names, then the metadata
is replaced atomically, then superseded files of the same artifact are removed.
"""

from __future__ import annotations

import contextlib
import operator
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.artifact import MAX_CONTROLS_BYTES, Artifact
from pytest_compileiq.claim import Claim
from pytest_compileiq.errors import CompileIQError, StoreError, UserError, fault_of
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.samples import SampleRow, SampleTable, measured
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.store.metadata import (
    MAX_METADATA_BYTES,
    MAX_SAMPLES_BYTES,
    NAME,
    controls_file_name,
    parse,
    referenced,
    render,
    restored,
    samples_file_name,
)
from pytest_compileiq.store.samples import Samples, decode_samples, encode_samples
from pytest_compileiq.system.files import PARTIAL, Unfit, locked, machine_lock, read_regular, replace

LICENCE_FILE = "LICENSE-ACF"  # ACFs drawn by CompileIQ cannot have an open-source repository's licence
_LIMITS = {".acf": MAX_CONTROLS_BYTES, ".csv": MAX_SAMPLES_BYTES, ".toml": MAX_METADATA_BYTES}


@dataclass(frozen=True)
class Health:
    """One problem under ``acf/``, in a sentence."""

    path: Path
    problem: str


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact as stored, its claims naming their samples, and the files that changed."""

    artifact: Artifact
    paths: tuple[Path, ...]


class Store:
    """The directory of artifacts; it may not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Artifact names, sorted; raises a ``StoreError`` for a store that exists and cannot be read."""
        return [entry.name for entry in self._entries(self.root) if _is_artifact_folder(entry)]

    def require(self, names: Iterable[str]) -> None:
        """Raise a ``UserError`` unless each of ``names`` is an artifact; a ``StoreError`` if they cannot be listed."""
        known = self.names()
        if unknown := sorted(set(names) - set(known)):
            raise self._nothing_called(unknown[0], known)

    def find(self, name: str, target: str | None) -> list[str]:
        """The targets of an artifact, or the requested one; raises as ``require`` does."""
        known = self.names()
        if name not in known or not (targets := self.targets(name)):
            raise self._nothing_called(name, [other for other in known if other != name])
        if target is not None and target not in targets:
            raise UserError(
                f"{name} has no target {target!r}{did_you_mean(target, targets)}: it has {', '.join(targets)}"
            )
        return targets if target is None else [target]

    def _nothing_called(self, name: str, known: Iterable[str]) -> UserError:
        return UserError(
            f"there is no artifact {name!r} in {self.root}{did_you_mean(name, known)}: acf list shows all of them"
        )

    def targets(self, name: str) -> list[str]:
        """Targets that have metadata under ``name``, sorted; raises as ``names`` does."""
        files = [entry.name for entry in self._entries(self._folder(name))]
        return sorted(filter(NAME.fullmatch, (file.removesuffix(".toml") for file in files if file.endswith(".toml"))))

    def artifacts(self) -> Iterator[tuple[str, str]]:
        """Name and target of every artifact; what cannot be listed is skipped here and reported by ``health``."""
        with contextlib.suppress(StoreError):
            for name in self.names():
                with contextlib.suppress(StoreError):
                    yield from ((name, target) for target in self.targets(name))

    def read_targets(self, name: str) -> Iterator[tuple[str, Artifact | StoreError]]:
        """Each target of an artifact, as read or why it cannot be; raises as ``names`` does."""
        for target in self.targets(name):
            try:
                yield target, self.read(name, target)
            except StoreError as error:
                yield target, error

    def metadata_path(self, name: str, target: str) -> Path:
        return self._folder(name) / f"{_checked(target)}.toml"

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, name: str, target: str) -> Artifact:
        """The metadata, strictly parsed.

        Raises:
            SchemaTooNew: a later version wrote it.
            StoreError: it cannot be read or is invalid.
        """
        path = self.metadata_path(name, target)
        shown = self._shown(path)
        return parse(self.read_bytes(path, MAX_METADATA_BYTES), shown, restored(shown))

    def options_of(self, name: str, target: str) -> frozenset[str]:
        """The options that an artifact records; none where it is missing or invalid."""
        with contextlib.suppress(StoreError):
            controls = self.read(name, target).controls
            return frozenset(f"{knob}{value}" for knob, value in controls.knobs.items()) if controls else frozenset()
        return frozenset()

    def read_controls(self, name: str, artifact: Artifact) -> bytes:
        """The content of the controls file, checked against the metadata.

        Raises:
            StoreError: it is missing, a link, too large, or has another digest.
        """
        if artifact.controls is None:
            raise StoreError(f"{self._shown(self.metadata_path(name, artifact.target))} has no [controls]")
        path = self._folder(name) / _checked(artifact.controls.file)
        data = self.read_bytes(path, MAX_CONTROLS_BYTES)
        if sha256_hex(data) != artifact.controls.sha256 or len(data) != artifact.controls.size_bytes:
            actual = f"sha256 {sha256_hex(data)[:8]}…, {len(data)} bytes"
            recorded = f"{artifact.controls.sha256[:8]}…, {artifact.controls.size_bytes} bytes"
            raise self._changed(path, f"{actual}; recorded {recorded}")
        return data

    def read_samples(self, name: str, artifact: Artifact) -> Iterator[tuple[Claim, SampleTable]]:
        """Every measured claim with its raw samples. Each file is parsed once, and one is in memory at a time.

        Raises:
            StoreError: a file is missing, differs from the digest in its name, or is not a samples file.
        """
        by_file: dict[str, list[Claim]] = {}
        for claim in artifact.claims:
            if claim.samples is not None:
                by_file.setdefault(claim.samples, []).append(claim)
        for file, claims in by_file.items():
            samples = self._samples(self._folder(name) / _checked(file), artifact.target)
            yield from ((claim, samples.rows((claim.device, claim.workload, claim.objective))) for claim in claims)

    def _samples(self, path: Path, target: str) -> Samples:
        data = self.read_bytes(path, MAX_SAMPLES_BYTES)
        if samples_file_name(target, data) != path.name:
            raise self._changed(path, f"its digest is {sha256_hex(data)[:8]}, not the one in its name")
        return decode_samples(data, self._shown(path))

    def _changed(self, path: Path, how: str) -> StoreError:
        shown = self._shown(path)
        return StoreError(f"{shown} was changed: {how}", restored(shown))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def write(
        self, name: str, artifact: Artifact, *, controls: Sequence[bytes], samples: Sequence[SampleRow]
    ) -> StoredArtifact:
        """Write an artifact. New samples go to a file of their own, which their claims then name.

        Older files that a claim still names stay.

        Raises:
            StoreError: the directory cannot be written, something in it is a link, or the artifact cannot be read back.
        """
        folder, named = self._folder(name), referenced(artifact)
        files = {controls_file_name(artifact.target, data): data for data in controls}
        new = [(folder / file, data) for file, data in files.items() if file in named]
        if samples:
            data = encode_samples(samples)
            file = samples_file_name(artifact.target, data)
            artifact = _naming_samples(artifact, samples, file)
            new.append((folder / file, data))
        new.append((self.metadata_path(name, artifact.target), render(artifact)))
        for path, data in new:  # what ``read`` would refuse is not written
            if len(data) > (limit := _LIMITS[path.suffix]):
                raise StoreError(f"{self._shown(path)} would have {len(data)} bytes, and at most {limit} are read back")
        parse(data, self._shown(path), "nothing was written")  # the metadata, which are last
        try:
            with self._lock():
                for directory in (self.root, folder):
                    self._refuse_link(directory)
                    directory.mkdir(parents=True, exist_ok=True)
                self._clear_partial(folder)
                written = [path for path, data in new if self._replace(path, data)]
                self._remove_superseded(folder, artifact)
        except OSError as error:
            raise StoreError(f"{self._shown(folder)} could not be written: {fault_of(error)}") from error
        return StoredArtifact(artifact, tuple(written))

    def _replace(self, path: Path, data: bytes) -> bool:
        self._refuse_link(path)
        if path.exists() and path.read_bytes() == data:
            return False
        replace(path, data)
        return True

    def _refuse_link(self, path: Path) -> None:
        if path.is_symlink():
            raise StoreError(f"{self._shown(path)} is a link; remove it")

    def _remove_superseded(self, folder: Path, artifact: Artifact) -> None:
        own = re.compile(re.escape(artifact.target) + r"-[0-9a-f]{8}\.(acf|csv)")
        kept = referenced(artifact)
        for entry in self._entries(folder):
            if own.fullmatch(entry.name) and entry.name not in kept:
                Path(entry).unlink()

    def clear_partial(self) -> None:
        """Remove what killed writers left half written; do nothing if a writer is at work or removing fails."""
        with contextlib.suppress(OSError, CompileIQError), self._lock(wait=False):
            for name in self.names():
                self._clear_partial(self._folder(name))

    def _clear_partial(self, folder: Path) -> None:
        for entry in filter(_is_partial, self._entries(folder)):  # under the lock nobody is writing them
            Path(entry).unlink(missing_ok=True)

    def _lock(self, *, wait: bool = True) -> AbstractContextManager[None]:
        return locked(machine_lock(f"store {self.root.resolve()}"), wait=wait)  # outside ``acf/``: that is committed

    def remove(self, name: str) -> None:
        """Remove an artifact with all its targets and files.

        Raises:
            StoreError: something in its directory is not a file, or cannot be removed.
        """
        folder = self._folder(name)
        self._refuse_link(folder)
        try:
            with self._lock():
                for entry in self._entries(folder):
                    Path(entry).unlink()
                folder.rmdir()
        except OSError as error:
            raise StoreError(f"{self._shown(folder)} could not be removed: {fault_of(error)}") from error

    # ── health ───────────────────────────────────────────────────────────────────────────────────────────────────

    def health(
        self, *, but: Container[str] = (), hold: Callable[[Claim, SampleTable], None] = lambda *_: None
    ) -> list[Health]:
        """Everything under the store that cannot be used, sorted by path; never raises.

        Args:
            but: names of artifacts that are checked elsewhere.
            hold: checks a measured claim against its samples, and raises a ``StoreError`` if they differ.
        """
        if self.root.is_symlink():
            return [Health(self.root, f"{self._shown(self.root)} is a link; remove it")]
        try:
            entries = [entry for entry in self._entries(self.root) if entry.name not in but]
        except StoreError as error:
            return [Health(self.root, str(error))]
        problems = [problem for entry in entries for problem in self._entry_health(entry, hold)]
        return sorted(problems, key=lambda health: str(health.path))

    def _entry_health(self, entry: os.DirEntry[str], hold: Callable[[Claim, SampleTable], None]) -> list[Health]:
        if entry.name == LICENCE_FILE and entry.is_file(follow_symlinks=False):
            return []
        path = Path(entry)
        if not _is_artifact_folder(entry):
            return [Health(path, f"{self._shown(path)} is no artifact's directory; remove it")]
        try:
            return self._folder_health(path, hold)
        except StoreError as error:  # it cannot be listed
            return [Health(path, str(error))]

    def _folder_health(self, folder: Path, hold: Callable[[Claim, SampleTable], None]) -> list[Health]:
        problems, known = [], set()
        for target in self.targets(folder.name):
            path = folder / f"{target}.toml"
            known.add(path.name)
            try:
                artifact = self.read(folder.name, target)
                known |= referenced(artifact)
                if artifact.controls is not None:
                    self.read_controls(folder.name, artifact)
                for claim, rows in self.read_samples(folder.name, artifact):
                    try:
                        hold(claim, rows)
                    except StoreError as error:
                        raise StoreError(f"{self._shown(path)}: {error}") from error
            except StoreError as error:
                problems.append(Health(path, str(error)))
                known |= {entry.name for entry in self._entries(folder) if entry.name.startswith(f"{target}-")}
        stray = [Path(each) for each in self._entries(folder) if each.name not in known and not _is_partial(each)]
        return problems + [Health(path, f"{self._shown(path)} belongs to no artifact; remove it") for path in stray]

    # ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _folder(self, name: str) -> Path:
        return self.root / _checked(name)

    def _shown(self, path: Path) -> str:
        """The path as a user of the project would type it."""
        return str(path).removeprefix(f"{self.root.parent}{os.sep}")

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What a directory holds, by name; nothing if it is missing or a link."""
        if folder.is_symlink():
            return []
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=operator.attrgetter("name"))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"{self._shown(folder)} cannot be read: {fault_of(error)}") from error

    def read_bytes(self, path: Path, limit: int) -> bytes:
        """A regular file's content.

        Raises:
            StoreError: it is missing, has more than ``limit`` bytes, is no regular file, or lies behind a link.
        """
        for directory in (self.root, path.parent):
            if directory.is_symlink():
                raise StoreError(f"{self._shown(directory)} is a link, and nothing behind a link is read; remove it")
        try:
            return read_regular(path, limit)
        except Unfit as why:
            raise StoreError(f"{self._shown(path)} {why}", restored(self._shown(path))) from why


def _naming_samples(artifact: Artifact, samples: Sequence[SampleRow], file_name: str) -> Artifact:
    sampled = measured(samples)
    claims = tuple(
        claim.model_copy(update={"samples": file_name})
        if claim.kind != "exact" and (claim.device, claim.workload, claim.objective) in sampled
        else claim
        for claim in artifact.claims
    )
    return artifact.model_copy(update={"claims": claims})


def _is_artifact_folder(entry: os.DirEntry[str]) -> bool:
    return NAME.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False)


def _is_partial(entry: os.DirEntry[str]) -> bool:
    """Whether a writer is still writing it, or was killed before it finished."""
    return entry.name.startswith(PARTIAL) and entry.is_file(follow_symlinks=False)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise StoreError(f"{name!r} is not a name: expected letters, digits, '.', '_' and '-'")
    return name
