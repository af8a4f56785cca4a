"""Whose C is raced: kernels of this project in one folder a half, and third-party files with drivers of ours there."""

from dataclasses import dataclass
from pathlib import Path

from race_build import DRIVERS, Source


@dataclass(frozen=True)
class Half:
    """The kernels and drivers of one half of the race, in a folder of its name."""

    name: str

    def own(self, name: str) -> Source:
        """A kernel of ours, which holds its driver."""
        path = DRIVERS / self.name / f"{name}.c"
        return Source(name, path, path)

    def driven(self, name: str, path: Path, *flags: str) -> Source:
        """A source of others with our driver, which reads the headers beside the source."""
        return Source(name, path, DRIVERS / self.name / f"{name}_driver.c", (*flags, f"-I{path.parent}"))
