"""Run an iterator in a second process, so that its work and that of its consumer take place at the same time."""

import fcntl
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final, TypeVar

_Item = TypeVar("_Item")

# Items of one message; a message of a few has less overhead.
_ITEMS_AT_ONCE: Final = 8
# What the iterator may be ahead of its consumer, in bytes: the most that Linux allows without privileges.
_PIPE_BYTES: Final = 2**20


class ChildEnded(Exception):
    """The process ended before its iterator."""


def has_second_core() -> bool:
    """Return whether a second process can run at the same time, and be a copy of this one."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def iterate_in_child(make: Callable[[], Iterator[_Item]]) -> Generator[_Item, None, None]:
    """Yield the items of an iterator that a copy of this process makes and runs; it must not use the database.

    Raises ChildEnded. The process ends with this iterator, and when this process ends.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with suppress(OSError):
        fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    process = context.Process(target=_send_all, args=(make, sender, receiver), daemon=True)
    process.start()
    # The end of a process closes the pipe only if no other process has its end open.
    sender.close()
    try:
        while True:
            try:
                items, is_end = receiver.recv()
            except (EOFError, OSError) as error:
                # OSError: within a message, which it writes until this process has read it.
                process.join()
                raise ChildEnded(f"the process ended with status {process.exitcode}") from error
            yield from items
            if is_end:
                return
    finally:
        receiver.close()
        process.kill()
        process.join()


def _send_all(make: Callable[[], Iterator[_Item]], sender: Connection, receiver: Connection) -> None:
    receiver.close()
    # Ctrl-C is sent to all processes of a terminal; the consumer decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The consumer has ended.
    with suppress(BrokenPipeError):
        items: list[_Item] = []
        for item in make():
            items.append(item)
            if len(items) == _ITEMS_AT_ONCE:
                sender.send((items, False))
                items = []
        sender.send((items, True))
