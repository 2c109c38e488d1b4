"""Making a driver that discovers the replica set find the proxy instead of the mongod behind it."""

from typing import Any

# `isMaster` and `ismaster` are the old names; drivers begin with one of them.
HELLO_COMMANDS = frozenset({b"hello", b"isMaster", b"ismaster"})


def rewrite_hello(reply: dict[str, Any], *, listen: str) -> dict[str, Any]:
    """Return a hello reply in which the member that answered is called `listen`, and that offers no compression.

    Compressed messages could not be read here; a driver compresses only what the server's hello names.
    """
    rewritten = {key: value for key, value in reply.items() if key != "compression"}
    own = reply.get("me")
    if own is None:
        return rewritten
    for key in ("hosts", "passives", "arbiters"):
        if key in rewritten:
            rewritten[key] = [listen if host == own else host for host in rewritten[key]]
    for key in ("me", "primary"):
        if rewritten.get(key) == own:
            rewritten[key] = listen
    return rewritten
