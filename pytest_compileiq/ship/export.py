"""The export for a JIT: the proven controls, named by digest, a manifest, and the module that answers from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq import __version__
from pytest_compileiq.artifact import ACF_NOTICE, Artifact
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import BuildError, StoreError, UserError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import Target, sha256_hex
from pytest_compileiq.ship import acf_runtime
from pytest_compileiq.ship.flags import (
    held_controls,
    plain,
    rootdir_of,
    set_and_kept_out,
    why_compiled_otherwise,
    why_read_otherwise,
    words_of,
)
from pytest_compileiq.store.status import read_source, why_stale, why_unproven
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, inside, replace
from pytest_compileiq.toolchains.deployment import deploy
from pytest_compileiq.toolchains.nvidia.tools import installed
from pytest_compileiq.toolchains.params.marker import read_line


@dataclass(frozen=True)
class Exported:
    """The result of an export: artifacts by name and target, and sentences on the others."""

    applied: tuple[str, ...]
    left_out: tuple[str, ...]
    stale: tuple[str, ...]  # if there are any, nothing is written without ``omit_stale``
    notes: tuple[str, ...] = ()  # on those that apply


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

    Without ``names`` all artifacts of the store are exported. Files of an earlier export are kept, since a running
    process may still hold their paths. The PTX beside a cubin of ``triton_cache`` with an artifact's machine code is
    what ``resolve`` will compare production's PTX with.

    Raises:
        UserError: there is no such artifact.
        StoreError: an artifact is invalid.
        EnvironmentFault: the path of an ACF has a character that a JIT would split its options at.
    """
    store.require(names)
    proven_ptx = _ptx_beside_cubins(triton_cache) if triton_cache is not None else {}
    entries, files, applied, left_out, stale, notes = [], {}, [], [], [], dict[str, None]()
    for name in sorted(names or store.names()):
        for target in store.targets(name):
            artifact = store.read(name, target)
            root = rootdir_of(store, artifact)
            data = held_controls(store, name, artifact, named) if artifact.controls else b""
            unbeaten = f"{name} ({artifact.target}): nothing to apply, the defaults were not beaten"
            options: Iterable[str] = ()
            ptx: Iterable[str] = ()
            if reason := unbeaten if artifact.outcome == "baseline" else why_unproven(name, artifact):
                left_out.append(reason)
            elif reason := why_stale(name, artifact, root) or _why_made_otherwise(name, artifact, root):
                stale.append(reason)
            elif artifact.compiler.compiles and not deploy(artifact).is_jit:
                left_out.append(f"{name} ({target}): no JIT compiles with {artifact.compiler.name}; see acf flags")
                continue
            else:
                files[sha256_hex(data)] = data
                applied.append(f"{name} ({target})")
                notes |= dict.fromkeys(set_and_kept_out(name, artifact))
                if artifact.compiler.compiles:
                    options = words_of(name, artifact, "{path}", by_file=False)
                    ptx = _ptx_of(artifact, root, proven_ptx)
            entries.append(_entry(name, artifact, reason, options, ptx))
    if any("{path}" in option for entry in entries for option in entry["options"]):
        plain(str(directory.absolute()), "choose another --runtime")
    if omit_stale or not stale:
        _write(directory, entries, files)
    return Exported(tuple(applied), tuple(left_out), tuple(stale), tuple(notes))


def _why_made_otherwise(name: str, artifact: Artifact, root: Path) -> str | None:
    """Why the compiler of this machine, where it has one of the artifact's line, makes something else."""
    reason = why_compiled_otherwise(name, artifact)
    if reason or not deploy(artifact).is_jit or deploy(artifact).read_again is None:
        return reason
    line = Target(artifact.target).line
    program = next((tool.program for tool in installed(artifact.compiler.name) if tool.line == line), None)
    return why_read_otherwise(name, artifact, program, root) if program else None


def _entry(
    name: str, artifact: Artifact, reason: str | None, options: Iterable[str], ptx: Iterable[str]
) -> dict[str, Any]:
    """One row of the manifest; its controls may be applied if ``reason`` is None."""
    controls = artifact.controls if reason is None else None
    params: dict[str, Any] = {}
    if controls:
        # Where nothing is compiled these are the defaults too: a program needs both to do what was proven.
        defaults = () if artifact.compiler.compiles else map(read_line, artifact.compiler.command[1:])
        params = {**dict(defaults), **deploy(artifact).params(controls.knobs)}
    # A claim of the build holds on every device of the architecture; any other, on the model that it was made on.
    devices = {claim.device for claim in artifact.claims if not claim.of_the_build}
    return {
        "name": name,
        "target": artifact.target,
        "architectures": list(Target(artifact.target).architectures),
        "devices": sorted(devices),
        # Triton's build ends with the assembler's; Triton's own version shows in the PTX.
        "compiler_build": artifact.compiler.build.rpartition(" ")[2] if artifact.compiler.compiles else "",
        "sha256": controls.sha256 if controls else None,
        "reason": reason,
        "options": list(options),
        "params": params,
        **({} if artifact.compiler.compiles else {"packages": list(filter(None, artifact.compiler.build.split(", ")))}),
        "ptx_sha256": sorted(ptx),
    }


def _ptx_of(artifact: Artifact, root: Path, proven: Mapping[str, set[str]]) -> set[str]:
    if deploy(artifact).reads_ptx:
        return {_ptx_digest(inside(root, source)) for source in artifact.fingerprint.sources}
    only_options = artifact.controls is not None and all(knob.startswith("-") for knob in artifact.controls.knobs)
    known: set[str] = set()
    for pair in artifact.code.values():
        # Both arms have the same PTX, unless parameters of the kernel were tuned too.
        arms = (pair.tuned, pair.baseline) if only_options else (pair.tuned,)
        known |= {ptx for arm in arms if arm for ptx in proven.get(arm.sha256, ())}
    return known


def _ptx_beside_cubins(cache: Path) -> dict[str, set[str]]:
    """Digest of an entry's machine code → digests of the PTX files beside its cubins in a Triton cache."""
    if not cache.is_dir():
        raise UserError(f"--triton-cache: there is no directory {cache}")
    ptx_of: dict[str, set[str]] = {}
    for path in sorted(cache.rglob("*.cubin")):
        try:
            entries = read_cubin(path).entries
        except BuildError:
            continue  # half written by a killed process; its PTX proves nothing
        if path.with_suffix(".ptx").is_file():
            digest = _ptx_digest(path.with_suffix(".ptx"))
            for code in entries.values():
                for sha256 in (code.sha256, *code.former):
                    ptx_of.setdefault(sha256, set()).add(digest)
    return ptx_of


def _ptx_digest(path: Path) -> str:
    try:
        return acf_runtime.ptx_sha256(read_source(path).decode("utf-8"))
    except (Unfit, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is no PTX that can be read: {error}") from error


def _write(directory: Path, entries: Sequence[Mapping[str, Any]], files: Mapping[str, bytes]) -> None:
    """Write the controls first and the manifest last, so that a reader always finds the files that it names."""
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
