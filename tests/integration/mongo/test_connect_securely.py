"""A URI with TLS and a user, tried on a mongod that requires both."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import pytest
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from kb_local.ports import free_port
from kb_reconciler.backup.backup import back_up
from kb_reconciler.backup.deployments import SourceSettings, mongo_failures, open_source, open_target
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.progress import SilentProgress
from kb_reconciler.backup.restore import load
from kb_reconciler.backup.scope import BackupScope
from kb_reconciler.backup.verification import verify
from kb_shared.errors import TransientError
from kb_shared.mongo import chunk_collections, document_texts, schema_version, vectors
from kb_shared.mongo import database as mongo
from kb_shared.mongo.database import Database, MongoSession, in_transaction, mongo_errors
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.uri import create_client
from kb_shared.settings import CommonSettings
from tests.indexes import create_all_indexes
from tests.integration.mongo.secured import Certificates, SecuredMongod, make_certificates

DATABASE: Final = "kb"
PASSWORD: Final = "p@ss/word:%"  # characters that a URI has to escape
LEAST: Final = [
    "find",
    "changeStream",
    "insert",
    "update",
    "remove",
    "createCollection",
    "dropCollection",
    "listCollections",
    "createIndex",
    "listIndexes",
    "dropIndex",
]
"""Privileges that the how-to page grants, without those on search indexes, which a plain mongod does not know."""
SOON_MS: Final = 500


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> AsyncIterator[SecuredMongod]:
    server = SecuredMongod(tmp_path_factory.mktemp("secured"), certificates, port=free_port())
    await server.start()
    async with server.admin() as admin:
        privileges = [{"resource": {"db": DATABASE, "collection": ""}, "actions": LEAST}]
        await admin[DATABASE].command("createRole", "knowledgeBases", privileges=privileges, roles=[])
        role: Any = [{"role": "knowledgeBases", "db": DATABASE}]
        for where in ("admin", "users"):
            await admin[where].command("createUser", f"of-{where}", pwd=PASSWORD, roles=role)
        await admin["$external"].command("createUser", certificates.client_subject, roles=role)
    yield server
    await server.kill()


def uri_of(secured: SecuredMongod, certificates: Certificates, options: str, *, user: str = "") -> str:
    login = f"{user}:{quote_plus(PASSWORD)}@" if user else ""
    return f"mongodb://{login}{secured.address}/?replicaSet=rs0&tls=true&tlsCAFile={certificates.ca}{options}"


async def use(uri: str) -> None:
    """Do what services do at their start, and what needs other rights than that."""
    database = mongo.connect(CommonSettings(mongo_uri=uri, mongo_database=DATABASE))
    async with database.client:
        await schema_version.check(database)
        await create_all_indexes(database)
        await in_transaction(database, lambda session: _write(database, session))
        await _store_large_text(database)
        await database.create_collection("kb_vectors_of_test", check_exists=False)
        await chunk_collections.find_kb_ids(database)
        await vectors.create_indexes(database["kb_vectors_of_test"])
        await database["kb_vectors_of_test"].drop_index("chunks_of_documents")
        await database.drop_collection("kb_vectors_of_test")


async def _write(database: Database, session: MongoSession) -> None:
    await database["tags"].insert_one({"tag_id": "t", "organization_id": "acme"}, session=session)
    await database["tags"].delete_many({"organization_id": "acme"}, session=session)


async def _store_large_text(database: Database) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 500_000

    text_ref = await document_texts.put_stream(database, DocumentKey("acme", "d"), pieces())
    assert await document_texts.touch(database, "acme", text_ref)


async def test_a_user_with_a_password_and_least_privileges_can_do_all_that_services_do(
    secured: SecuredMongod, certificates: Certificates
) -> None:
    await use(uri_of(secured, certificates, "&authSource=admin", user="of-admin"))
    await use(uri_of(secured, certificates, "&authSource=admin&authMechanism=SCRAM-SHA-256", user="of-admin"))


async def test_the_database_that_a_user_belongs_to_is_named_by_auth_source(
    secured: SecuredMongod, certificates: Certificates
) -> None:
    await use(uri_of(secured, certificates, "&authSource=users", user="of-users"))
    database = mongo.connect(CommonSettings(mongo_uri=uri_of(secured, certificates, "", user="of-users")))
    async with database.client:
        with pytest.raises(TransientError, match="check its name, its password") as refused, mongo_errors():
            await database["tags"].find_one()
        assert PASSWORD not in str(refused.value)


async def test_a_client_certificate_is_a_user(secured: SecuredMongod, certificates: Certificates) -> None:
    await use(uri_of(secured, certificates, f"&authMechanism=MONGODB-X509&tlsCertificateKeyFile={certificates.client}"))


async def test_a_connection_without_the_right_ca_certificate_or_tls_is_refused(
    secured: SecuredMongod, certificates: Certificates
) -> None:
    stranger = uri_of(
        secured, certificates, f"&authMechanism=MONGODB-X509&tlsCertificateKeyFile={certificates.stranger}"
    )
    unverified = f"mongodb://{secured.address}/?replicaSet=rs0&tls=true"
    plain = f"mongodb://{secured.address}/?replicaSet=rs0"
    await asyncio.gather(*(refused(uri) for uri in (stranger, unverified, plain)))


async def refused(uri: str) -> None:
    async with create_client(uri, serverSelectionTimeoutMS=SOON_MS) as client:
        with pytest.raises((ServerSelectionTimeoutError, OperationFailure)):
            await client[DATABASE]["tags"].find_one()


async def test_a_user_who_may_read_can_back_up_and_one_who_may_write_can_restore(
    secured: SecuredMongod, certificates: Certificates, tmp_path: Path
) -> None:
    async with secured.admin() as admin:
        roles: dict[str, Any] = {
            "reader": {"role": "read", "db": "filled"},
            "writer": {"role": "readWrite", "db": "new"},
        }
        for name, role in roles.items():
            await admin["admin"].command("createUser", name, pwd=PASSWORD, roles=[role])
        await create_all_indexes(admin["filled"])
        await admin["filled"]["tags"].insert_one({"tag_id": "t", "organization_id": "acme"})
        stored = await admin["filled"]["tags"].find().to_list()
        reader = uri_of(secured, certificates, "&authSource=admin", user="reader")
        async with open_source(SourceSettings(mongo_uri=reader, mongo_database="filled")) as source:
            await back_up(source, tmp_path / "backup", BackupScope(), progress=SilentProgress())
        backup = await verify(tmp_path / "backup", BackupScope(), progress=SilentProgress())
        writer = uri_of(secured, certificates, "&authSource=admin", user="writer").replace("/?", "/new?")
        async with open_target(writer) as target:
            restored = await load(target, backup, progress=SilentProgress())
            await restored.repair()
        assert await admin["new"]["tags"].find().to_list() == stored
        with pytest.raises(BackupRefused, match="MongoDB refuses this user"), mongo_failures("again"):
            async with open_source(SourceSettings(mongo_uri=reader, mongo_database=DATABASE)):
                pass
