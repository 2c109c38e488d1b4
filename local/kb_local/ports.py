import errno
import os
import socket
import ssl
from collections.abc import Mapping
from itertools import chain
from random import SystemRandom
from typing import Final

from kb_local.errors import UnusablePort

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""TLS setting for clients of servers on this machine. Without it, httpx reads all certificates for each client: 30 ms
of CPU."""


_RANGE: Final = range(20_000, 32_000)
"""Ports below the ephemeral ports of outgoing connections (Linux from 32768, macOS from 49152), which on a busy machine
would often take a port between the moment it is found free and the moment a server listens there."""


def free_port() -> int:
    """Return a loopback port that is free, and that no other call returns while this process lives.

    Raises:
        UnusablePort: all are taken.
    """
    start = SystemRandom().randrange(len(_RANGE))
    for port in chain(_RANGE[start:], _RANGE[:start]):
        if is_free(port) and _claim(port):
            return port
    raise UnusablePort(
        f"no free port from {_RANGE.start} to {_RANGE.stop - 1}",
        remedy="stop some of the processes that listen there (`ss -ltn`)",
    )


def _claim(port: int) -> bool:
    """Mark `port` as taken; return False if a running process has done so already.

    The mark is the UDP port of the same number: others who look for a port see it, servers on TCP are not in its way,
    and the system takes it back when the process ends, however it does.
    """
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind((LOOPBACK, port))
    except OSError:
        mark.close()
        return False
    mark.detach()
    return True


def is_free(port: int) -> bool:
    return _bind_error(port) is None


def _bind_error(port: int) -> int | None:
    """Return the `errno` of an attempt to listen on `port`; None if it can be done."""
    with socket.socket() as probe:
        # As servers do: a connection that lingers from the last run does not make the port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error.errno
        return None


def parse_port(text: str) -> int:
    """Return the number of the port that a setting names.

    Raises:
        UnusablePort: `text` is no number from 1 to 65535.
    """
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= LAST_PORT):
        raise UnusablePort(
            f"{text!r} is not a port number",
            remedy=f"use a number from 1 to {LAST_PORT}, or unset KB_PORT to use any free port",
        )
    return int(text)


def check_free(port: int) -> None:
    """Check that a server can listen on the port that the user asked for.

    Raises:
        UnusablePort: another process listens there, or this user may not use it.
    """
    refusal = _bind_error(port)
    if refusal == errno.EADDRINUSE:
        raise UnusablePort(
            f"port {port} is in use",
            remedy=f"stop what listens there (`ss -ltnp sport = :{port}`), choose another port, or unset KB_PORT",
        )
    if refusal is not None:
        raise UnusablePort(
            f"port {port} cannot be used: {os.strerror(refusal)}",
            remedy="choose another port above 1023, or unset KB_PORT",
        )


class Ports:
    """Assigns a port to each name: the one of the last start if it is free, otherwise another."""

    def __init__(self, remembered: Mapping[str, int] | None = None) -> None:
        self._remembered = dict(remembered or {})
        self._taken: dict[str, int] = {}

    def reserve(self, name: str) -> int:
        if name in self._taken:
            return self._taken[name]
        port = self._remembered.get(name)
        if port is None or not is_free(port) or port in self._taken.values():
            port = self._choose_new()
        self._taken[name] = port
        return port

    def reserve_exactly(self, name: str, port: int) -> int:
        """Take the port that the user asked for.

        Raises:
            UnusablePort: another process listens there, or this user may not use it.
        """
        check_free(port)
        self._taken[name] = port
        return port

    @property
    def remembered(self) -> dict[str, int]:
        """Return the ports to store for the next start."""
        return {**self._remembered, **self._taken}

    def _choose_new(self) -> int:
        reserved = {*self._taken.values(), *self._remembered.values()}
        while (port := free_port()) in reserved:
            pass
        return port
