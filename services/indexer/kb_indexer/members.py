"""Reads from each member of the replica set by itself, because each search index has its own lag."""

from dataclasses import replace
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.read_preferences import Nearest
from pymongo.server_description import ServerDescription
from pymongo.server_selectors import Selection

from kb_shared.mongo.vectors import Chunks

# An arbiter has no data and no search index.
_WITHOUT_DATA = "RSArbiter"


class _OneMember(Nearest):
    """A read preference for the member at one address."""

    def __init__(self, address: Any) -> None:
        super().__init__()
        self._address = address

    def __call__(self, selection: Selection) -> Selection:
        wanted = [member for member in selection.server_descriptions if member.address == self._address]
        return selection.with_server_descriptions(wanted)


def on_each_member(chunks: Chunks) -> list[Chunks] | None:
    """Return the chunks once for each member that holds data, to read from it; None while one of them can't be asked.

    Without a replica set, return `chunks` unchanged.
    """
    client: AsyncMongoClient[Any] = chunks.collection.database.client
    topology = client.topology_description
    if not topology.topology_type_name.startswith("ReplicaSet"):
        return [chunks]
    members = [each for each in topology.server_descriptions().values() if each.server_type_name != _WITHOUT_DATA]
    if not all(member.is_readable for member in members):
        return None
    return [_bind_to_member(member, chunks) for member in members]


def _bind_to_member(member: ServerDescription, chunks: Chunks) -> Chunks:
    return replace(chunks, collection=chunks.collection.with_options(read_preference=_OneMember(member.address)))
