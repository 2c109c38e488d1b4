"""Making a driver that discovers the replica set find the search nodes instead of the members behind them."""

from collections.abc import Mapping
from typing import Any

# `isMaster` and `ismaster` are the old names; drivers begin with one of them.
HELLO_COMMANDS = frozenset({b"hello", b"isMaster", b"ismaster"})


def rewrite_hello(reply: dict[str, Any], *, listen: str, siblings: Mapping[str, str]) -> dict[str, Any]:
    """Return a hello reply that names search nodes instead of members, and that offers no compression.

    Compressed messages could not be read here; a driver compresses only what the server's hello names.

    Args:
        reply: of the member behind this node.
        listen: `host:port` of this node.
        siblings: those of the other members' nodes, by the members' own as the replica set's configuration has them.
    """
    rewritten = {key: value for key, value in reply.items() if key != "compression"}
    nodes = dict(siblings)
    if "me" in reply:
        nodes[reply["me"]] = listen
    for key in ("hosts", "passives", "arbiters"):
        if key in rewritten:
            rewritten[key] = [nodes.get(host, host) for host in rewritten[key]]
    for key in ("me", "primary"):
        if key in rewritten:
            rewritten[key] = nodes.get(rewritten[key], rewritten[key])
    return rewritten
