"""Exports as ``acf export --runtime`` writes them, made without a store, for the processes that tests start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_compileiq.model import sha256_hex
from pytest_compileiq.ship import acf_runtime


def make_export(directory: Path, devices: Mapping[str, Sequence[str]], retired: Sequence[str] = ()) -> Path:
    """An export of these artifacts for sm_90a, each proven on the given devices; the retired have no controls."""
    (directory / "acfs").mkdir(parents=True)
    entries = []
    for name in (*devices, *retired):
        data = f"controls of {name}".encode()
        (directory / "acfs" / f"{sha256_hex(data)}.acf").write_bytes(data)
        entry = {
            "name": name, "target": "sm_90a-ptxas13.3", "architectures": ["sm_90a"],
            "devices": list(devices.get(name, ())), "compiler_build": "b", "ptx_sha256": [], "packages": [],
            "sha256": sha256_hex(data), "options": ["--apply-controls={path}"], "params": {}, "reason": None,
        }  # fmt: skip
        entries.append(entry if name in devices else {**entry, "sha256": None, "reason": f"{name} was retired: wrong"})
    (directory / "manifest.json").write_text(json.dumps({"schema": acf_runtime.SCHEMA, "artifacts": entries}))
    (directory / "acf_runtime.py").write_bytes(Path(acf_runtime.__file__).read_bytes())
    return directory
