"""A store as a value: what lies below ``acf/``, links and pipes too, laid out on a disk or kept as text for the corpus."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Tree:
    """What lies below ``acf/``: a path in bytes → content in bytes, ``Link``, or one of the words below."""

    files: dict[bytes, Any] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        """Lay it out, nothing through a link; a path that no file system takes is left out."""
        links = {name for name, what in self.files.items() if isinstance(what, Link)}
        for name, what in self.files.items():
            if not any(name.startswith(link + b"/") for link in links):
                with contextlib.suppress(OSError):
                    _lay(root / os.fsdecode(name), what)

    @property
    def digest(self) -> str:
        """Equal for equal stores."""
        return hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    to: str


PIPE, DIRECTORY, SPARSE = "pipe", "directory", "sparse"  # SPARSE: 70 MiB of nothing


def _lay(path: Path, what: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(what, bytes):
        path.write_bytes(what)
    elif isinstance(what, Link):
        path.symlink_to(what.to)
    elif what == PIPE:
        os.mkfifo(path)
    elif what == DIRECTORY:
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 70 << 20)


def to_json(tree: Tree) -> str:
    """A tree as text, for the corpus."""
    content = {
        os.fsdecode(name): what.decode("latin-1") if isinstance(what, bytes) else {"link": what.to} if isinstance(what, Link) else {"is": what}
        for name, what in tree.files.items()
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def from_json(text: str) -> Tree:
    """The inverse of ``to_json``."""
    return Tree({
        os.fsencode(name): what.encode("latin-1") if isinstance(what, str) else Link(what["link"]) if "link" in what else what["is"]
        for name, what in json.loads(text).items()
    })  # fmt: skip
