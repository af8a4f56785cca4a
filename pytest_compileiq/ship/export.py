"""What a JIT takes along: the proven controls under their digests, a manifest, and the module that answers for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq import __version__
from pytest_compileiq.artifact import ACF_NOTICE, Artifact
from pytest_compileiq.errors import BuildError, StoreError, UserError
from pytest_compileiq.model import Target, sha256_hex
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.ship import acf_runtime
from pytest_compileiq.ship.flags import (
    held_controls,
    plain,
    read_source,
    rootdir_of,
    why_stale,
    why_unproven,
    words_of,
)
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, inside, replace
from pytest_compileiq.toolchains.machine_code.cubin import read_cubin


@dataclass(frozen=True)
class Exported:
    """What an export came to.

    Attributes:
        applied: name and target of every artifact whose controls are in it.
        left_out: why others are not, in sentences.
        stale: the sentences of those that may not be applied; with any, nothing was written unless told to omit them.
    """

    applied: tuple[str, ...]
    left_out: tuple[str, ...]
    stale: tuple[str, ...]


def export_runtime(
    store: Store,
    directory: Path,
    names: Sequence[str],
    *,
    omit_stale: bool,
    triton_cache: Path | None,
    named: NamedOptions,
) -> Exported:
    """Write ``manifest.json``, ``acf_runtime.py`` and ``acfs/<sha256>.acf`` into ``directory``.

    Files that an earlier export left are kept, since a process that runs may still have their paths.

    Args:
        names: which artifacts; all of the store when empty.
        triton_cache: a JIT cache; the PTX beside a cubin that is, digest by digest, an artifact's own is what
            ``resolve`` will compare production's PTX with.
        named: what the project's settings let into controls files.

    Raises:
        UserError: there is no such artifact.
        StoreError: an artifact is not what it must be.
        EnvironmentFault: a path has a character that a JIT would split its options at.
    """
    plain(str(directory.absolute()))
    if unknown := sorted(set(names) - set(store.names())):
        raise UserError(f"there is no artifact {unknown[0]!r} in {store.root}: acf list shows them all")
    proven_ptx = _ptx_beside_cubins(triton_cache) if triton_cache is not None else {}
    entries, files, applied, left_out, stale = [], {}, [], [], []
    for name in sorted(names or store.names()):
        for target in store.targets(name):
            artifact = store.read(name, target)
            root = rootdir_of(store, artifact)
            data = held_controls(store, name, artifact, named) if artifact.controls else b""
            if reason := _why_baseline(name, artifact):
                left_out.append(reason)
                entries.append(_entry(name, artifact, reason=reason))
            elif reason := why_stale(name, artifact, root):
                stale.append(reason)
                entries.append(_entry(name, artifact, reason=reason))
            elif artifact.compiler.name not in ("nvcc", "ptxas", "triton"):
                left_out.append(f"{name} ({target}): no JIT compiles with {artifact.compiler.name}; see acf flags")
            else:
                files[sha256_hex(data)] = data
                ptx = _ptx_of(artifact, root, proven_ptx)
                entries.append(_entry(name, artifact, options=words_of(name, artifact, "{path}"), ptx=ptx))
                applied.append(f"{name} ({target})")
    if omit_stale or not stale:
        _write(directory, entries, files)
    return Exported(tuple(applied), tuple(left_out), tuple(stale))


def _why_baseline(name: str, artifact: Artifact) -> str | None:
    """Why there are no controls to apply, though nothing is wrong; or None."""
    if artifact.outcome == "baseline":
        return f"{name} ({artifact.target}): nothing to apply, the compiler's defaults were not beaten"
    return why_unproven(name, artifact)


def _entry(
    name: str,
    artifact: Artifact,
    *,
    reason: str | None = None,
    options: Sequence[str] = (),
    ptx: Iterable[str] = (),
) -> dict[str, Any]:
    """One row of the manifest; without ``reason`` its controls may be applied."""
    controls = artifact.controls if reason is None else None
    knobs = controls.knobs if controls else {}
    # What is exact holds on every device of the architecture; what was measured, on the model it was measured on.
    devices = {claim.device for claim in artifact.claims if claim.kind != "exact"}
    return {
        "name": name,
        "target": artifact.target,
        "architectures": list(Target(artifact.target).architectures),
        "devices": sorted(devices),
        # Of Triton the assembler's build is the last word; its own version shows in the PTX.
        "compiler_build": artifact.compiler.build.rpartition(" ")[2],
        "sha256": controls.sha256 if controls else None,
        "reason": reason,
        "options": list(options),
        "params": {knob: value for knob, value in knobs.items() if not knob.startswith("-")},
        "ptx_sha256": sorted(ptx),
    }


def _ptx_of(artifact: Artifact, root: Path, proven: Mapping[str, set[str]]) -> set[str]:
    """Digests of the PTX that is known to give this artifact's machine code."""
    if artifact.compiler.name == "ptxas":
        return {_ptx_digest(inside(root, source)) for source in artifact.fingerprint.sources}
    launch_alone = artifact.controls is not None and all(knob.startswith("-") for knob in artifact.controls.knobs)
    known: set[str] = set()
    for pair in artifact.code.values():
        # The baseline's PTX is the tuned one's too, unless the launch was tuned with it.
        arms = (pair.tuned, pair.baseline) if launch_alone else (pair.tuned,)
        known |= {ptx for arm in arms if arm for ptx in proven.get(arm.sha256, ())}
    return known


def _ptx_beside_cubins(cache: Path) -> dict[str, set[str]]:
    """Digest of an entry's machine code → digests of the PTX files that lie beside it in a Triton cache."""
    if not cache.is_dir():
        raise UserError(f"--triton-cache: there is no directory {cache}")
    found: dict[str, set[str]] = {}
    for path in sorted(cache.rglob("*.cubin")):
        try:
            entries = read_cubin(path).entries
        except BuildError:
            continue  # half written by a process that was killed; its PTX proves nothing
        if path.with_suffix(".ptx").is_file():
            digest = _ptx_digest(path.with_suffix(".ptx"))
            for code in entries.values():
                found.setdefault(code.sha256, set()).add(digest)
    return found


def _ptx_digest(path: Path) -> str:
    try:
        return acf_runtime.ptx_sha256(read_source(path).decode("utf-8"))
    except (Unfit, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is no PTX that can be read: {error}") from error


def _write(directory: Path, entries: Sequence[Mapping[str, Any]], files: Mapping[str, bytes]) -> None:
    """Controls first and the manifest last, so that whoever reads meanwhile finds what it names."""
    (directory / "acfs").mkdir(parents=True, exist_ok=True)
    for digest, data in files.items():
        replace(directory / "acfs" / f"{digest}.acf", data)
    replace(directory / "acf_runtime.py", Path(acf_runtime.__file__).read_bytes())
    manifest = {
        "schema": acf_runtime.SCHEMA,
        "tool": f"pytest-compileiq {__version__}",
        "notice": ACF_NOTICE,
        "artifacts": list(entries),
    }
    replace(directory / "manifest.json", (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
