"""Checks of texts that a chat model turns into knowledge."""

import json
from typing import Any, Final
from uuid import uuid4

import httpx

from kb_contracts.api.check_ins import CheckInView
from kb_local.ports import NO_TLS
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization

TEXT: Final = "Alice specializes in LES."
PROPOSAL: Final[dict[str, Any]] = {
    "metadata": {"noted:alice": {"entity_type": "noted", "properties": {"specialization": "LES"}}},
    "pieces": [],
    "graph": {"nodes": [], "edges": []},
}


async def structure(organization: StockedOrganization, **options: Any) -> CheckInView:
    """Let a scripted model answer with `PROPOSAL`."""
    model = f"scripted-{uuid4().hex[:16]}"
    base_url = organization.running.system.stack.models_api_base.removesuffix("/v1")
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, verify=NO_TLS) as http:
        script = {"model": model, "turns": [{"text": json.dumps(PROPOSAL)}]}
        (await http.put("/admin/chat", json=script)).raise_for_status()
    return await organization.client.knowledge.structure(text=TEXT, model=model, **options)


async def stored_check_in(organization: StockedOrganization, check_in_id: str) -> Row:
    row = await organization.row("check_ins", _id=check_in_id)
    derived = {"check_in_id": check_in_id, "excerpt": row["text"], "warning_count": len(row["warnings"])}
    return {**row, **derived, "proposal": json.loads(row["proposal"])}


@checks("knowledge.structure")
async def check_structure(organization: StockedOrganization) -> None:
    answer = await structure(organization)
    stored = await stored_check_in(organization, answer.check_in_id)
    assert_holds(stored, text=TEXT, proposal=PROPOSAL, state="proposed", created_by=organization.key_id)
    assert_shows(answer, stored)


@checks("check_ins.get")
async def check_get(organization: StockedOrganization) -> None:
    check_in_id = (await structure(organization)).check_in_id
    answer = await organization.client.check_ins.get(check_in_id)
    assert_shows(answer, await stored_check_in(organization, check_in_id))


@checks("check_ins.list")
async def check_list(organization: StockedOrganization) -> None:
    check_in_id = (await structure(organization)).check_in_id
    [listed] = (await organization.client.check_ins.list(limit=1)).check_ins
    assert listed.check_in_id == check_in_id
    assert_shows(listed, await stored_check_in(organization, check_in_id))


@checks("check_ins.apply")
async def check_apply(organization: StockedOrganization) -> None:
    check_in_id = (await structure(organization)).check_in_id
    answer = await organization.client.check_ins.apply(check_in_id)
    assert answer.state == "applied"
    assert_shows(answer, await stored_check_in(organization, check_in_id))
    assert_holds(await organization.row("entities", entity_id="noted:alice"), **PROPOSAL["metadata"]["noted:alice"])
