from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.uri_parser import parse_uri

from kb_local.errors import UnusableServer
from kb_shared.errors import Misconfigured
from kb_shared.mongo.uri import create_client

ANSWERS_WITHIN_MS = 10_000
REMEDY = "name a replica set of MongoDB 6.0 or newer, or a deployment with Atlas search, with KB_MONGO_URI"


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoDeployment:
    """A MongoDB that exists already and is not ours to start or stop."""

    uri: str
    has_search: bool
    """True if it answers Atlas search commands itself."""
    members: Sequence[str]
    """`host:port` of those that hold data, as the replica set's configuration has them; empty without one."""
    set_name: str


async def inspect_mongo(uri: str) -> MongoDeployment:
    """Find out what can be done with a deployment. One without search of its own gets search nodes put in front.

    Raises:
        UnusableServer: the services refuse its URI, or it does not answer, is no replica set, or lacks search where the
            node cannot help, because it speaks neither TLS nor authentication.
    """
    try:
        # Without a second connection in the background, which a client this short-lived would close half open.
        client = create_client(uri, serverSelectionTimeoutMS=ANSWERS_WITHIN_MS, serverMonitoringMode="poll")
    except Misconfigured as error:
        raise UnusableServer(str(error), remedy=REMEDY) from error
    try:
        async with client:
            hello = await client.admin.command("hello")
            has_search = await _has_search(client)
    except PyMongoError as error:
        raise UnusableServer(
            f"the deployment of KB_MONGO_URI does not answer ({type(error).__name__})", remedy=REMEDY
        ) from error
    if not has_search and "setName" not in hello:
        raise UnusableServer("the deployment of KB_MONGO_URI is no replica set", remedy=REMEDY)
    if not has_search and _is_secured(uri):
        raise UnusableServer(
            "the deployment of KB_MONGO_URI has no Atlas search, and the search node works only without TLS and "
            "authentication",
            remedy="use Atlas, mongodb/mongodb-atlas-local or mongot; or a mongod of this machine",
        )
    return MongoDeployment(
        uri=uri,
        has_search=has_search,
        members=(*hello.get("hosts", ()), *hello.get("passives", ())),
        set_name=hello.get("setName", ""),
    )


async def _has_search(client: AsyncMongoClient[dict[str, Any]]) -> bool:
    try:
        cursor = await client.kb_search_probe.nothing.aggregate([{"$listSearchIndexes": {}}])
        await cursor.to_list()
    except OperationFailure:
        return False
    return True


def _is_secured(uri: str) -> bool:
    parsed = parse_uri(uri)
    return bool(parsed["username"] or parsed["options"].get("tls"))
