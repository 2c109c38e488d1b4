"""Checks of sources and of MCP servers."""

import pytest

from kb_client.problems import McpServerInUseError, NotFoundError, SourceRunEndedError
from kb_contracts.api.knowledge_sources import KnowledgeSourceView
from kb_contracts.api.mcp_servers import McpServerView
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_shows
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization

MCP_URL = "http://127.0.0.1:9/mcp"


async def new_source(organization: StockedOrganization) -> KnowledgeSourceView:
    sources = organization.client.knowledge_sources
    file = await sources.upload_file("hotels.md", b"# Hotels\n\nA night costs 140 euros.")
    config = {"filename": "hotels.md", "file_id": file.file_id}
    return await sources.create(label="Hotels", kind="file_upload", config=config)


async def stored_source(organization: StockedOrganization, source_id: str) -> Row:
    row = await organization.row("knowledge_sources", _id=source_id)
    first = row.get("next_run_at")
    # Sources of these tests run once a year or only when asked for.
    next_run_times = [first.replace(year=first.year + number) for number in range(3)] if first else []
    return {"next_run_at": None, **row, "source_id": source_id, "next_run_times": next_run_times}


async def new_server(organization: StockedOrganization) -> McpServerView:
    servers = organization.client.mcp_servers
    return await servers.create(label="Wiki", url=MCP_URL, headers={"Authorization": "Bearer secret"})


async def stored_server(organization: StockedOrganization, mcp_server_id: str) -> Row:
    row = await organization.row("mcp_servers", _id=mcp_server_id)
    assert "secret" not in str(row)
    return {**row, "mcp_server_id": mcp_server_id}


async def ended_run(organization: StockedOrganization, source_id: str) -> str:
    run = await organization.client.knowledge_sources.run(source_id)
    await organization.until_row("source_runs", _id=run.run_id, status="ok")
    return run.run_id


@checks("knowledge_sources.upload_file")
async def check_upload_file(organization: StockedOrganization) -> None:
    file = await organization.client.knowledge_sources.upload_file("a.txt", b"x" * 600_000)
    assert (file.filename, file.size_bytes) == ("a.txt", 600_000)
    stored = await organization.database["source_files.files"].find_one(
        {"_id": f"{organization.organization_id}/{file.file_id}"}
    )
    assert stored is not None
    assert stored["length"] == 600_000


@checks("knowledge_sources.create")
async def check_create(organization: StockedOrganization) -> None:
    created = await new_source(organization)
    assert_shows(created, await stored_source(organization, created.source_id))


@checks("knowledge_sources.list")
async def check_list(organization: StockedOrganization) -> None:
    created = await new_source(organization)
    answer = await organization.client.knowledge_sources.list(limit=100)
    assert answer.total_count == len(answer.sources)
    [shown] = [each for each in answer.sources if each.source_id == created.source_id]
    assert_shows(shown, await stored_source(organization, created.source_id))


@checks("knowledge_sources.get")
async def check_get(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    answer = await organization.client.knowledge_sources.get(source_id)
    assert_shows(answer, await stored_source(organization, source_id))


@checks("knowledge_sources.update")
async def check_update(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    sources = organization.client.knowledge_sources
    answer = await sources.update(source_id, label="Nights", cron_expression="0 0 1 1 *")
    assert answer.next_run_at is not None
    assert_shows(answer, await stored_source(organization, source_id))
    assert (await sources.update(source_id, cron_expression=None)).next_run_at is None


@checks("knowledge_sources.delete")
async def check_delete(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    await ended_run(organization, source_id)
    entry = await organization.until_row("knowledge_entries", source_id=source_id, embedding_status="ready")
    await organization.client.knowledge_sources.delete(source_id)
    for collection in ("source_runs", "source_items"):
        assert await organization.rows(collection, source_id=source_id) == []
    kept = await organization.row("knowledge_entries", _id=entry["_id"])
    assert (kept["content"], kept["source_id"], kept["source_key"]) == (entry["content"], None, None)
    with pytest.raises(NotFoundError):
        await organization.client.knowledge_sources.get(source_id)
    await organization.until_row(
        "knowledge_entries", _id=entry["_id"], source_kind=None, source_type="reference", embedding_status="ready"
    )
    for types, is_found in (["file_upload"], False), (["reference"], True):
        answer = await organization.client.knowledge.search("What does a night cost?", types=types, limit=100)
        assert (entry["entry_id"] in {hit.entry_id for hit in answer.hits}) is is_found


@checks("knowledge_sources.run")
async def check_run(organization: StockedOrganization) -> None:
    source = await new_source(organization)
    run = await organization.client.knowledge_sources.run(source.source_id)
    assert (run.trigger, run.requested_by) == ("manual", organization.key_id)
    await organization.until_row("source_runs", _id=run.run_id, status="ok")
    entry = await organization.row("knowledge_entries", source_id=source.source_id)
    assert (entry["content"], entry["source_key"]) == ("# Hotels\n\nA night costs 140 euros.", "hotels.md")
    await organization.until_row("knowledge_entries", source_id=source.source_id, embedding_status="ready")
    stored = await stored_source(organization, source.source_id)
    assert (stored["last_run_status"], stored["last_run_entry_count"]) == ("ok", 1)


@checks("knowledge_sources.preview")
async def check_preview(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    preview = await organization.client.knowledge_sources.preview(source_id)
    [item] = preview.items
    assert (item.key, item.beginning) == ("hotels.md", "# Hotels\n\nA night costs 140 euros.")
    assert await organization.rows("knowledge_entries", source_id=source_id) == []


@checks("knowledge_sources.list_runs")
async def check_list_runs(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    run_id = await ended_run(organization, source_id)
    answer = await organization.client.knowledge_sources.list_runs(source_id)
    assert ([run.run_id for run in answer.runs], answer.total_count) == ([run_id], 1)
    assert answer.runs[0].counts.created == 1


@checks("knowledge_sources.get_run")
async def check_get_run(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    run_id = await ended_run(organization, source_id)
    answer = await organization.client.knowledge_sources.get_run(source_id, source_run_id=run_id)
    row = await organization.row("source_runs", _id=run_id)
    assert (answer.status, answer.finished_at, answer.bytes_read) == ("ok", row["finished_at"], row["bytes_read"])


@checks("knowledge_sources.cancel_run")
async def check_cancel_run(organization: StockedOrganization) -> None:
    source_id = (await new_source(organization)).source_id
    run_id = await ended_run(organization, source_id)
    with pytest.raises(SourceRunEndedError):
        await organization.client.knowledge_sources.cancel_run(source_id, source_run_id=run_id)
    waiting = {"status": "waiting", "finished_at": None}
    await organization.database["source_runs"].update_one({"_id": run_id}, {"$set": waiting})
    answer = await organization.client.knowledge_sources.cancel_run(source_id, source_run_id=run_id)
    assert answer.cancelled or answer.status in ("running", "ok")


@checks("mcp_servers.create")
async def check_create_server(organization: StockedOrganization) -> None:
    created = await new_server(organization)
    assert_shows(created, await stored_server(organization, created.mcp_server_id))
    assert created.header_names == ["Authorization"]


@checks("mcp_servers.list")
async def check_list_servers(organization: StockedOrganization) -> None:
    created = await new_server(organization)
    answer = await organization.client.mcp_servers.list(limit=100)
    assert answer.total_count == len(answer.mcp_servers)
    [shown] = [each for each in answer.mcp_servers if each.mcp_server_id == created.mcp_server_id]
    assert_shows(shown, await stored_server(organization, created.mcp_server_id))


@checks("mcp_servers.get")
async def check_get_server(organization: StockedOrganization) -> None:
    mcp_server_id = (await new_server(organization)).mcp_server_id
    answer = await organization.client.mcp_servers.get(mcp_server_id)
    assert_shows(answer, await stored_server(organization, mcp_server_id))


@checks("mcp_servers.update")
async def check_update_server(organization: StockedOrganization) -> None:
    mcp_server_id = (await new_server(organization)).mcp_server_id
    answer = await organization.client.mcp_servers.update(mcp_server_id, label="Old wiki", headers={})
    assert (answer.label, answer.header_names) == ("Old wiki", [])
    assert_shows(answer, await stored_server(organization, mcp_server_id))


@checks("mcp_servers.delete")
async def check_delete_server(organization: StockedOrganization) -> None:
    mcp_server_id = (await new_server(organization)).mcp_server_id
    sources, servers = organization.client.knowledge_sources, organization.client.mcp_servers
    source = await sources.create(label="Wiki", kind="mcp", config={"mcp_server_id": mcp_server_id})
    with pytest.raises(McpServerInUseError):
        await servers.delete(mcp_server_id)
    await sources.delete(source.source_id)
    await servers.delete(mcp_server_id)
    assert await organization.rows("mcp_servers", _id=mcp_server_id) == []
