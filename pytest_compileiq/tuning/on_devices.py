"""Work that devices take in turn, each on a thread of its own, since all of them wait for others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

Work = TypeVar("Work")


def on_devices(
    devices: int,
    take: Callable[[], Work | None],
    do: Callable[[Work, int], None],
    interrupt: Callable[[], None],
) -> None:
    """Have each device do what it takes, until there is nothing left; raises what doing it raised.

    With one device it is done on the caller's own thread, which hears a Ctrl-C.

    Args:
        take: the next piece of work, None for no more; one device asks at a time unless it waits.
        do: does it on a device, which is told by its place.
        interrupt: is told of a Ctrl-C, and that a device has failed: then the others have to come to an end.
    """
    if devices == 1:
        while (work := take()) is not None:
            do(work, 0)
        return

    def serve(place: int) -> None:
        while (work := take()) is not None:
            do(work, place)

    with ThreadPoolExecutor(devices, thread_name_prefix="compileiq-device") as threads:
        serving = [threads.submit(serve, place) for place in range(devices)]
        try:
            wait(serving, return_when=FIRST_EXCEPTION)
            for served in serving:
                if served.done():
                    served.result()
        except BaseException:
            interrupt()
            raise
