"""`kb backup` and `kb restore` as an operator runs them."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from kb_local.python_server import SearchNodeProcess
from kb_reconciler.backup.deployments import SourceSettings, open_source, open_target, read_provider_key_ids
from kb_reconciler.backup.errors import BackupRefused
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Database
from tests.conftest import RunningMongo
from tests.integration.reconciler.backups import SourceDeployment, digests

KB = str(Path(sys.executable).with_name("kb"))


async def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        KB,
        *arguments,
        env=os.environ | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()


async def test_a_deployment_is_backed_up_and_restored_by_two_commands(
    source: SourceDeployment, search_node: RunningMongo | SearchNodeProcess, target: Database, tmp_path: Path
) -> None:
    folder, to = str(tmp_path / "backup"), search_node.uri.replace("/?", f"/{target.name}?")
    # A document was lost by an operator: its chunks have to be embedded again.
    await source.database[source.kb.vector_collection].delete_many({"document_id": "d1"})
    here = {"KB_MONGO_URI": search_node.uri, "KB_MONGO_DATABASE": source.database.name}

    status, output, errors = await run("backup", folder, **here)
    assert (status, "Everything is of one cluster time." in output) == (0, True), errors
    status, output, errors = await run("restore", folder, "--to", to, KB_PROVIDER_KEYS="other:AAAA")
    assert status == 1
    assert "Nothing was repaired" in errors
    for sentence in (
        "2 API keys are restored as the hashes",
        "KB_PROVIDER_KEYS of this shell does not have k1",
        "SPUs",
    ):
        assert sentence in output
    status, output, errors = await run("restore", folder, "--to", to, "--yes", "--json")
    assert status == 0, errors
    assert json.loads(output)["repaired"] == {"incomplete": 1}
    before, after = await digests(source.database), await digests(target)
    assert [name for name in before if before[name] != after[name]] == []
    assert after.keys() - before.keys() == {"index_jobs"}


async def test_what_can_not_be_opened_is_said_in_one_line(search_node: RunningMongo | SearchNodeProcess) -> None:
    nowhere = "mongodb://user:secret@127.0.0.1:1/kb?serverSelectionTimeoutMS=1"
    for address, reason in (
        ("mongodb://127.0.0.1:27017/?replicaSet=rs0", "--to names no database"),
        ("127.0.0.1:27017/kb", "--to can't be read"),
        (f"{nowhere}&readPreference=secondary", "--to can't be used"),
    ):
        with pytest.raises(BackupRefused, match=reason) as refused:
            async with open_target(address):
                pass
        assert "secret" not in str(refused.value)
    settings = SourceSettings(mongo_uri=search_node.uri, mongo_database="does_not_exist")
    with pytest.raises(BackupRefused, match=f"has no collection '{knowledge_bases.NAME}'"):
        async with open_source(settings):
            pass


def test_ids_of_provider_keys_are_read_without_the_keys() -> None:
    assert read_provider_key_ids({"KB_PROVIDER_KEYS": "new:AAAA, old:BBBB"}) == {"new", "old"}
    assert read_provider_key_ids({}) == frozenset()


async def test_a_backup_may_delete_older_ones(
    source: SourceDeployment, search_node: RunningMongo | SearchNodeProcess, tmp_path: Path
) -> None:
    here = {"KB_MONGO_URI": search_node.uri, "KB_MONGO_DATABASE": source.database.name}
    first, second = tmp_path / "first", tmp_path / "second"
    assert (await run("backup", str(first), "--keep", "1", **here))[0] == 0
    status, output, errors = await run("backup", str(second), "--keep", "1", "--json", **here)
    assert status == 0, errors
    assert json.loads(output)["deleted"] == [str(first)]
    remaining = await asyncio.to_thread(os.listdir, tmp_path)
    assert remaining == ["second"]
