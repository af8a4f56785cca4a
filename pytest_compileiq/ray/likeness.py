"""What a node has to have in common with its driver, asked before anything else.

``here`` runs on nodes that may have another version of this package, or none: it is sent by value, and so uses
the standard library alone and nothing of this module but itself.
"""

from __future__ import annotations

from collections.abc import Mapping

_ABSENT = "none"


def here() -> dict[str, str]:
    """Name → version of what messages and workers depend on, and the digest of this package's own files."""
    import hashlib
    import importlib.metadata
    import importlib.util
    import platform
    from pathlib import Path

    versions = {"Python": platform.python_version()}
    for name in ("ray", "pytest", "msgspec", "numpy", "pytest-compileiq"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "none"
    spec = importlib.util.find_spec("pytest_compileiq")
    digest = hashlib.sha256()
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    versions["pytest-compileiq's files"] = digest.hexdigest()[:12]
    return versions


def why_unlike(there: Mapping[str, str], own: Mapping[str, str]) -> str | None:
    """What a node has otherwise than its driver, in words; None where nothing is."""
    unlike = [f"{name} {there.get(name, _ABSENT)} (here {of_here})" for name, of_here in own.items()
              if there.get(name) != of_here]  # fmt: skip
    return f"it has {unlike[0]}" if unlike else None
