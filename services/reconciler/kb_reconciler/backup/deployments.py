"""Opens the deployment that is backed up, and the database that is restored into."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import unquote

from pydantic import ValidationError
from pymongo.errors import OperationFailure, PyMongoError

from kb_reconciler.backup.errors import BackupRefused
from kb_shared.errors import Misconfigured, TransientError
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import AUTHENTICATION_FAILED, COMMAND_WITHIN_S, Database
from kb_shared.mongo.uri import create_client
from kb_shared.settings import CommonSettings

_BATCH_WITHIN_S: Final = 300.0
"""Time limit of one command: the first batch of a large collection may be sorted first."""
_NOT_ALLOWED: Final = (13, AUTHENTICATION_FAILED)
CollectionInfo = dict[str, Any]
"""Collection as `listCollections` returns it."""


class SourceSettings(CommonSettings):
    """Settings of a command that needs MongoDB alone."""

    uses_kafka = False


def read_source_settings() -> SourceSettings:
    """Read the settings of the environment.

    Raises:
        BackupRefused: one of them can't be used.
    """
    try:
        return SourceSettings()
    except ValidationError as error:
        names = ", ".join(sorted({f"KB_{str(each['loc'][0]).upper()}" for each in error.errors() if each["loc"]}))
        raise BackupRefused(f"these settings can't be used: {names or 'those of Kafka'}") from None


def read_provider_key_ids(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of the keys in KB_PROVIDER_KEYS, and no key."""
    entries = environment.get("KB_PROVIDER_KEYS", "").split(",")
    return frozenset(entry.strip().partition(":")[0] for entry in entries if entry.strip())


@asynccontextmanager
async def open_source(settings: SourceSettings) -> AsyncIterator[Database]:
    """Open the database of KB_MONGO_URI and KB_MONGO_DATABASE.

    Raises:
        BackupRefused: it can't be reached, is no replica set, or has no KBs.
    """
    async with _open(settings.mongo_uri, settings.mongo_database, setting="KB_MONGO_URI") as database:
        if knowledge_bases.NAME not in await database.list_collection_names():
            raise BackupRefused(
                f"database {database.name!r} of KB_MONGO_URI has no collection {knowledge_bases.NAME!r}: set"
                " KB_MONGO_URI and KB_MONGO_DATABASE to those of the services"
            )
        yield database


@asynccontextmanager
async def open_target(address: str) -> AsyncIterator[Database]:
    """Open the database that a URI names in its path.

    Raises:
        BackupRefused: the URI names none, can't be reached, or is no replica set.
    """
    # A `/` in a password is percent-encoded.
    name = unquote(address.partition("://")[2].partition("/")[2].partition("?")[0])
    if "://" in address and not name:  # without a scheme, the driver says what is wrong
        raise BackupRefused(
            "--to names no database: write it after the hosts, as in"
            " --to 'mongodb://127.0.0.1:27017/kb?replicaSet=rs0'; with a user, add authSource"
        )
    async with _open(address, name, setting="--to") as database:
        yield database


@asynccontextmanager
async def _open(uri: str, name: str, *, setting: str) -> AsyncIterator[Database]:
    try:
        client = create_client(
            uri,
            tz_aware=True,
            w="majority",
            timeoutMS=int(_BATCH_WITHIN_S * 1000),
            serverSelectionTimeoutMS=int(COMMAND_WITHIN_S * 1000),
            appname="kb-backup",
        )
    except Misconfigured as error:
        raise BackupRefused(str(error).replace("KB_MONGO_URI", setting)) from None
    async with client:
        await _require_replica_set(client[name], setting)
        yield client[name]


async def _require_replica_set(database: Database, setting: str) -> None:
    try:
        hello = await database.client.admin.command("hello")
    except PyMongoError as error:
        raise BackupRefused(
            f"MongoDB at {setting} does not answer ({type(error).__name__}): check the address, the user and its"
            " password, and that this machine may connect"
        ) from None
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        raise BackupRefused(f"MongoDB at {setting} is no replica set: only those have snapshots and transactions")


async def find_collection(database: Database, name: str) -> CollectionInfo | None:
    async for info in await database.list_collections(filter={"name": name}):
        return dict(info)
    return None


async def list_collections(database: Database) -> dict[str, CollectionInfo]:
    """Return all collections and views but those of MongoDB itself, by name."""
    found = [dict(info) async for info in await database.list_collections()]
    return {info["name"]: info for info in sorted(found, key=lambda each: str(each["name"])) if not _is_system(info)}


def _is_system(info: CollectionInfo) -> bool:
    return str(info["name"]).startswith("system.")


@contextmanager
def mongo_failures(continues: str) -> Iterator[None]:
    """Raise errors of MongoDB as one line that ends with `continues`."""
    try:
        yield
    except OperationFailure as error:
        if error.code in _NOT_ALLOWED:
            raise BackupRefused(
                f"MongoDB refuses this user (code {error.code}): a backup needs the role `read` on the database, a"
                " restore `readWrite` on the new one; check authSource, too"
            ) from error
        raise BackupRefused(f"MongoDB failed ({type(error).__name__}, code {error.code}); {continues}") from error
    except (PyMongoError, TransientError) as error:
        raise BackupRefused(f"MongoDB failed ({type(error).__name__}); {continues}") from error
