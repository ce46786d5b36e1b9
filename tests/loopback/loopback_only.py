"""Refuse connections and lookups that leave this machine, in this process, and write each to a file.

Standard library and the grammar of CPython 3.8 only: the processes that tests start load it too (sitecustomize.py).
An audit hook sees every call of `socket`, also where a test replaces a function of the module, and before the
system is asked, so that nothing is sent. What is not Python (libpq, curl, Chromium) is not seen.
"""

import errno
import ipaddress
import os
import socket
import sys

# Names the file to which refusals are written, one a line.
RECORD = "TESTS_REFUSED_CONNECTIONS"
# Which argument of an event names the other side.
_ADDRESSES = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
_LOOKUPS = {
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.getnameinfo",
}
_INTERNET = (socket.AF_INET, socket.AF_INET6)
# On `sys`, as a process may load this module under two names: by sitecustomize.py and as part of the tests.
_STATE = "_refused_connections"


def install(record):
    """Install the hook, once in a process; record: the file to write to, "" for none."""
    is_first = not hasattr(sys, _STATE)
    setattr(sys, _STATE, record)
    if is_first:
        sys.addaudithook(_refuse)


def is_loopback(host):
    """Return whether a host is this machine by its number, by the name localhost, or not given at all."""
    name = _read_name(host)
    number = _read_number(name)
    if number is None:
        return name in ("", "localhost")
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback


def _read_name(host):
    if host is None:
        return ""
    return host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else str(host)


def _read_number(name):
    """Return the address that a name is, in any spelling that the resolver takes for one ("127.1"), else None."""
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.ip_address(socket.inet_aton(name))
    except (OSError, ValueError):
        return None


def _refuse(event, arguments):
    if event in _ADDRESSES:
        opened, address = arguments[0], arguments[_ADDRESSES[event]]
        # A datagram of a connected socket has no address: the connection was checked.
        if opened.family not in _INTERNET or not isinstance(address, tuple) or is_loopback(address[0]):
            return
        _write(event, address[0])
    elif event in _LOOKUPS:
        host = arguments[0][0] if event == "socket.getnameinfo" else arguments[0]
        if is_loopback(host):
            return
        # For a number, or where the caller wants one, nobody is asked.
        if event == "socket.getaddrinfo" and (_read_number(_read_name(host)) is not None or _wants_number()):
            return
        _write(event, host)


def _wants_number():
    """Return whether getaddrinfo was called with AI_NUMERICHOST, which the event does not say."""
    caller = sys._getframe(2)
    flags = caller.f_locals.get("flags", 0) if caller.f_code.co_name == "getaddrinfo" else 0
    return bool(flags & socket.AI_NUMERICHOST)


def _write(event, host):
    line = f"{event} to {_read_name(host)} in {_find_caller()}"
    path = getattr(sys, _STATE)
    if path:
        # One write of a line, appended: lines of several processes do not mix.
        record = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(record, line.encode("utf-8", "replace") + b"\n")
        finally:
            os.close(record)
    raise PermissionError(errno.EACCES, "tests connect to loopback addresses only: " + line)


def _find_caller():
    """Return file and line of the innermost frame outside of the standard library's sockets and this module."""
    frame = sys._getframe(3)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, socket.__file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} of process {os.getpid()}"
