"""C of many kinds from which to learn what gcc's options usually do to time, size and executed instructions.

No race is on any of these sources, and none is near to one that a race is on: what is learned here is tried there.
"""

from collections.abc import Iterator

from race_build import BENCH, Source

HOME = BENCH / "learned_kernels"
TRANSFER = BENCH / "transfer_kernels"
SHORT = frozenset({"floats_gather", "floats_hashing", "floats_sorting", "floats_varints"})


def sources() -> Iterator[Source]:
    """Sources with drivers, which can be timed and their instructions counted."""
    yield from transfer()


def transfer() -> Iterator[Source]:
    """The kernels of bench/transfer.py, which share a driver."""
    for path in sorted(TRANSFER.glob("*.c")):
        name = f"floats_{path.stem}"
        yield Source(name, path, HOME / "floats_driver.c", (f"-DTURNS={16 if name in SHORT else 4}",))


def is_counted(source: Source) -> bool:
    """Whether a small call ends before race_serve's limit while each instruction is counted, with any options.

    Most of the transfer kernels know no small call.
    """
    return source.name in SHORT or not source.name.startswith("floats_")
