"""The time limit of one document, in the process that reads it."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# CPU time of one document: a usual one takes 2 ms.
DOCUMENT_LIMIT_S: Final = 10.0
# A document may wait for PostgreSQL, locks and other processes; an endless wait is a time-out, too.
_ELAPSED_FACTOR: Final = 3
_CHECK_S: Final = 1.0


class TookTooLong(KeyboardInterrupt):
    """A document exceeded its time limit.

    Not an Exception, which a reader could answer. psycopg cancels a statement that a KeyboardInterrupt interrupts.
    """


@contextmanager
def limit_time(cpu_s: float) -> Iterator[None]:
    """Raise TookTooLong in the block after this CPU time of the process, or three times as long.

    By a signal, which interrupts Python, regular expressions and waits for PostgreSQL. Code in C that does not return
    is ended by the time limit of the task, with its process. Threads other than the main one have no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    cpu_start_s, start_s = time.process_time(), time.monotonic()

    def check(number: int, frame: FrameType | None) -> None:
        elapsed_s = time.monotonic() - start_s
        if time.process_time() - cpu_start_s < cpu_s and elapsed_s < _ELAPSED_FACTOR * cpu_s:
            signal.setitimer(signal.ITIMER_REAL, min(_CHECK_S, cpu_s))
            return
        raise TookTooLong

    previous = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
