"""`kb export` and `kb import` as an operator calls them."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kb_client.cli import create_app
from kb_local.python_server import SearchNodeProcess
from kb_shared.mongo import api_keys, document_index, knowledge_bases
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from tests.conftest import RunningMongo
from tests.integration.indexer.support import Replica, Tenant, text_of
from tests.unit.reconciler import kbx_files
from tests.waiting import until


class KbCommand:
    """The command `kb` with the environment of an operator."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    async def run(self, *arguments: str | Path, answer: str = "") -> Result:
        written = [str(argument) for argument in arguments]

        def invoke() -> Result:
            return CliRunner().invoke(create_app(), written, input=answer, env=self._environment)

        return await asyncio.to_thread(invoke)


@pytest.fixture
def command(search_node: RunningMongo | SearchNodeProcess, shared_database: Database) -> KbCommand:
    return KbCommand({"KB_MONGO_URI": search_node.uri, "KB_MONGO_DATABASE": shared_database.name})


@pytest.fixture
async def filled(tenant: Tenant, indexer: Replica) -> KnowledgeBase:
    kb = await tenant.create_kb("a", chunk_size=50)
    await indexer.publish(tenant.ocr("d1", text_of(1, 2, 3)))
    await indexer.work()
    key_id, whole_key = api_keys.create_secret_key()
    name = tenant.organization_id
    key = ApiKey(key_id, name, name, frozenset({Scope.ADMIN}), datetime.now(UTC), expires_at=None, revoked_at=None)
    await api_keys.insert(tenant.database, key, whole_key=whole_key, pepper="pepper")
    return kb


async def test_a_knowledge_base_is_exported_and_imported(
    command: KbCommand, filled: KnowledgeBase, tenant: Tenant, tmp_path: Path
) -> None:
    file, organization = tmp_path / "kb.kbx", ("--organization", tenant.organization_id)
    # As a version has indexed it that did not note the space of vectors.
    rows = {"kb_id": filled.kb_id}
    await tenant.database[document_index.NAME].update_many(rows, {"$unset": {"vector_space": ""}})
    exported = await command.run("export", filled.kb_id, file)
    assert exported.exit_code == 0, exported.output
    assert f"{file}: 1 documents, 1 tags" in exported.stdout
    assert "vectors are left out, because it was not noted which provider computed them" in exported.stdout
    again = await command.run("export", filled.kb_id, file)
    assert (again.exit_code, again.stderr) == (1, f"error: {file} exists; choose another name, or delete it first\n")

    options = ("import", file, *organization, "--document-prefix", "old-", "--json")
    refused = await command.run(*options, answer="n\n")
    assert refused.exit_code == 1
    assert "1 new documents, 0 that the organization has already" in refused.stderr
    assert "to embed and to charge: at most" in refused.stderr
    assert await knowledge_bases.count(tenant.database, tenant.organization_id) == 1

    imported = await command.run(*options, answer="y\n")
    assert imported.exit_code == 0, imported.output
    # After the echo of the answer.
    outcome = json.loads(imported.stdout[imported.stdout.index("{") :])
    kb = await knowledge_bases.get(tenant.database, KnowledgeBaseKey(tenant.organization_id, outcome["kb_id"]))
    assert (kb.status, kb.name) == (Status.CREATING, filled.name)
    repeated = await command.run("import", file, *organization, "--document-prefix", "old-", "--yes")
    assert f"this file was imported before, as knowledge base {kb.kb_id}" in repeated.stdout


async def test_an_import_waits_until_the_documents_are_indexed(
    command: KbCommand, filled: KnowledgeBase, tenant: Tenant, tmp_path: Path
) -> None:
    file = tmp_path / "kb.kbx"
    await command.run("export", filled.kb_id, file, "--config-only", "--json")
    waiting = asyncio.create_task(
        command.run("import", file, "--organization", tenant.organization_id, "--yes", "--wait")
    )

    async def created() -> list[KnowledgeBase]:
        return [kb for kb in await of_organization(tenant) if kb.status is Status.CREATING]

    async def is_created() -> bool:
        return len(await created()) > 0

    await until(is_created)
    (kb,) = await created()
    assert not waiting.done()
    await knowledge_bases.set_status(tenant.database, kb, Status.ACTIVE, only_from=Status.CREATING)
    assert f"imported as knowledge base {kb.kb_id}" in (await waiting).stdout


async def of_organization(tenant: Tenant) -> list[KnowledgeBase]:
    return await knowledge_bases.find_of_organization(tenant.database, tenant.organization_id)


async def test_bad_input_is_answered_with_one_line_that_says_what_to_do(
    command: KbCommand, tenant: Tenant, tmp_path: Path
) -> None:
    organization = ("--organization", tenant.organization_id)
    unknown = await command.run("export", "0" * 24, tmp_path / "kb.kbx")
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        "error: there is no knowledge base '000000000000000000000000' in this database\n",
    )
    both = await command.run("export", "0" * 24, tmp_path / "kb.kbx", "--config-only", "--without-vectors")
    assert both.exit_code == 2
    for options in (("--tag", "a"), ("--document-prefix", "/"), ("--name", " ")):
        wrong = await command.run("import", tmp_path / "kb.kbx", *organization, *options)
        assert wrong.exit_code == 2, options
    damaged = kbx_files.write(tmp_path, {**kbx_files.members(), "texts.jsonl": b"{}\n"})
    no_key = await command.run("import", damaged, *organization)
    assert "there is no organization" in no_key.stderr
    unreadable = await KbCommand({"KB_MONGO_URI": "mongodb://127.0.0.1/?w=1"}).run("import", damaged, *organization)
    assert unreadable.exit_code == 1
    assert unreadable.stderr.startswith("error: KB_MONGO_URI")
    assert unreadable.stderr.count("\n") == 1


async def test_vectors_of_a_file_are_not_used_where_organizations_share_the_cache(
    command: KbCommand, filled: KnowledgeBase, tenant: Tenant, tmp_path: Path
) -> None:
    file = kbx_files.write(tmp_path)
    environment = command._environment | {"KB_EMBEDDING_CACHE_SCOPE": "global"}
    shared = await KbCommand(environment).run(
        "import", file, "--organization", tenant.organization_id, "--json", "--yes"
    )
    assert shared.exit_code == 1, "d1 exists with another text"
    options = ("--organization", tenant.organization_id, "--document-prefix", "x-", "--json", "--yes")
    own = await command.run("import", file, *options)
    assert json.loads(own.stdout)["vectors"] == 2
    shared = await KbCommand(environment).run("import", file, *options, "--again")
    assert json.loads(shared.stdout)["vectors"] == 0
    assert "KB_EMBEDDING_CACHE_SCOPE is global" in shared.stderr
