"""A port for a server that a test starts as a process of its own."""

import contextlib
import random
import socket

# Below those that Linux gives to outgoing connections (32768 and up), of which a test run makes hundreds a second:
# one of them could take the port before its server does.
_PORTS = range(20_000, 32_000)


def find_free_port() -> int:
    """Return a port that nobody has on this machine."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
