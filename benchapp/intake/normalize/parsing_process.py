"""Parse in another process, with a time limit: meanwhile a web process answers other requests.

A thread cannot be ended, and a regular expression holds the lock of the interpreter. A template process, which has
loaded the parser, is forked for each call: 10 ms. The web process itself is not forked: a copy has the locks of its
threads, which nobody releases, and its connections to clients and PostgreSQL. The template of `multiprocessing` is not
used: each of its processes runs the main module of its caller, granian, again.
"""

import gc
import math
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import Final, ParamSpec, TypeVar

from django.conf import settings

from benchapp.intake.normalize.time_limit import DOCUMENT_LIMIT_S, TookTooLong, limit_time

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# Of CPU time, per CPU time that a call may take: it ends code in C that does not return to the interpreter.
_KILL_FACTOR: Final = 2
# Of a call that neither computes nor ends; `limit_time` interrupts such a one after three times its limit.
_WAIT_FACTOR: Final = 4
_NAME_BYTES: Final = 1000


class ParsingFailed(Exception):
    """A call took too long, or its process ended. code: as of a rejection; the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def call_in_process(
    function: Callable[_Parameters, _Result], *arguments: _Parameters.args, **named: _Parameters.kwargs
) -> _Result:
    """Return the result of a function of a module, called in another process; it must not use the database.

    Arguments and result are pickled. Raises what the function raises, and ParsingFailed after DOCUMENT_LIMIT_S of CPU
    time. Its callers limit how many run at the same time.
    """
    connection = _TEMPLATE.fork(function.__module__)
    connection.settimeout(_WAIT_FACTOR * DOCUMENT_LIMIT_S)
    try:
        with connection, connection.makefile("rwb") as file:
            pickle.dump((function, arguments, named, DOCUMENT_LIMIT_S), file)
            file.flush()
            has_result, value = pickle.load(file)  # noqa: S301 - of our own process
    except TimeoutError as error:
        raise _took_too_long() from error
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise ParsingFailed(
            "reader-fault", "the process that parses it exceeded a limit of time or memory, or crashed"
        ) from error
    if has_result:
        return value  # type: ignore[no-any-return]
    kind, error_arguments, attributes = value
    if kind is TookTooLong:
        raise _took_too_long()
    # Without its __init__, which may have other parameters.
    failure: Exception = kind.__new__(kind, *error_arguments)
    failure.__dict__.update(attributes)
    raise failure


def _took_too_long() -> ParsingFailed:
    return ParsingFailed("took-too-long", f"parsing took more than {DOCUMENT_LIMIT_S:.0f} s")


class _Template:
    """The process that is forked, started by the first call and ended with this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, module: str) -> socket.socket:
        """Return the connection to a new copy, which has loaded the module."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                self._send(module, theirs)
            except OSError:
                # It was killed, by a lack of memory for example.
                self._control = None
                self._send(module, theirs)
        return ours

    def _send(self, module: str, connection: socket.socket) -> None:
        self._control = self._control or self._start()
        socket.send_fds(self._control, [module.encode()], [connection.fileno()])

    def _start(self) -> socket.socket:
        if self._process:
            self._process.wait()
        # One message, one call.
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=theirs.fileno(), cwd=settings.BASE_DIR
            )
        return control


_TEMPLATE: Final = _Template()


def _serve(control: socket.socket) -> None:
    """Fork for each message, which has the name of a module and a connection; return when the web process ends."""
    # Both are sent to all processes of a terminal or service; the web process decides when to end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Nothing waits for the copies.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        name, descriptors, _, _ = socket.recv_fds(control, _NAME_BYTES, 1)
        if not name:
            return
        import_module(name.decode())
        # Else a collection of a copy writes to all of its pages, and each is copied.
        gc.freeze()
        if os.fork() == 0:
            # Else the web process would not notice that the template has ended.
            control.close()
            try:
                _answer(socket.socket(fileno=descriptors[0]))
            except BrokenPipeError:
                # The web process has ended.
                pass
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(descriptors[0])


def _answer(connection: socket.socket) -> None:
    with connection, connection.makefile("rwb") as file:
        function, arguments, named, cpu_s = pickle.load(file)  # noqa: S301 - of our own process
        kill_s = math.ceil(_KILL_FACTOR * cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (kill_s, kill_s))
        try:
            with limit_time(cpu_s):
                answer = pickle.dumps((True, function(*arguments, **named)))
        except (Exception, TookTooLong) as error:
            # The traceback is lost with the process.
            error.add_note(traceback.format_exc())
            answer = pickle.dumps((False, (type(error), error.args, error.__dict__)))
        file.write(answer)


if __name__ == "__main__":
    import django

    django.setup(set_prefix=False)
    _serve(socket.socket(fileno=sys.stdin.fileno()))
