"""Settings of the organization: keys, providers, tags, webhooks, audit log, deletion."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.operator_pages import DELIVERY_ID, KEY_ID, ORG, WEBHOOK_ID

SETTINGS = f"{ORG}/settings"
KEYS = f"{SETTINGS}/keys"
PROVIDERS = f"{SETTINGS}/providers"
TAGS = f"{SETTINGS}/tags"
WEBHOOKS = f"{SETTINGS}/webhooks"
ORGANIZATION = f"{SETTINGS}/organization"


@pytest.mark.parametrize("page", ["keys", "providers", "webhooks", "audit"])
async def test_a_page_for_admins_says_which_scope_is_missing_and_asks_nothing_of_it(
    reader: httpx.AsyncClient, api: FakeApi, page: str
) -> None:
    api.calls.clear()
    refused = await reader.get(f"{SETTINGS}/{page}")
    assert (refused.status_code, "lacks the scope <code>admin</code>" in refused.text) == (403, True)
    assert api.calls == ["GET /operations/counts"], "only what the header shows"


async def test_lists_without_rows_say_what_to_do(admin: httpx.AsyncClient, api: FakeApi) -> None:
    for call, rows, page, words in [
        ("GET /api-keys", "api_keys", "keys", "Create one below"),
        ("GET /llm-providers", "llm_providers", "providers", "Set one below"),
        ("GET /tags", "tags", "tags", "There is no tag yet"),
        ("GET /webhooks", "webhooks", "webhooks", "Create a webhook below"),
        ("GET /audit", "entries", "audit", "Nothing was changed"),
    ]:
        api.answers[call] |= {rows: [], "total_count": 0}
        assert words in (await admin.get(f"{SETTINGS}/{page}")).text
    assert "Show all" in (await admin.get(f"{TAGS}?q=x")).text
    assert "Show all" in (await admin.get(f"{SETTINGS}/audit?outcome=failed")).text


async def test_a_new_key_is_shown_once_and_a_refused_form_keeps_what_was_typed(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    form = {"name": "ingest", "scopes": ["read", "write"], "days": "30", "kb_ids": [KB_ID], "idempotency_key": "k" * 32}
    created = await admin.post(KEYS, data=form)
    assert "kb_3f9c1d2e4b5a6978_..." in created.text
    sent = api.bodies["POST /api-keys"]
    assert (sent["name"], sent["scopes"], sent["kb_ids"]) == ("ingest", ["read", "write"], [KB_ID])
    left = datetime.fromisoformat(sent["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    assert api.sent_headers["POST /api-keys"]["idempotency-key"] == "k" * 32, "a form that is sent twice makes one key"
    api.refuse("POST /api-keys", 422, "validation-error", fields=[{"field": "scopes", "message": "too few"}])
    refused = await admin.post(KEYS, data={"name": "My <b>"})
    assert (refused.status_code, 'value="My &lt;b&gt;"' in refused.text, "too few" in refused.text) == (422, True, True)
    assert "kb_3f9c1d2e4b5a6978_..." not in (await admin.get(KEYS)).text


async def test_a_key_is_revoked_after_a_question_which_names_the_own_one(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    asked = (await admin.get(f"{KEYS}/{KEY_ID}/revoke")).text
    assert ("ingest" in asked, "your session ends" in asked) == (True, False)
    assert f"DELETE /api-keys/{KEY_ID}" not in api.calls
    own = "0123456789ab"
    assert "your session ends" in (await admin.get(f"{KEYS}/{own}/revoke")).text
    assert (await admin.post(f"{KEYS}/{KEY_ID}/revoke")).headers["location"] == f"{KEYS}?done=revoked"
    assert f"DELETE /api-keys/{KEY_ID}" in api.calls


async def test_a_provider_is_set_tested_paused_and_its_key_is_never_shown_again(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    form = {"provider": "openai", "api_key": "sk-secret", "api_base": "", "requests_per_minute": "500"}
    assert (await admin.post(PROVIDERS, data=form)).status_code == 303
    limits = {"api_base": None, "requests_per_minute": 500, "tokens_per_minute": None}
    assert api.bodies["PUT /llm-providers/openai"] == {"api_key": "sk-secret", **limits}
    unusable = await admin.post(PROVIDERS, data={**form, "requests_per_minute": "many"})
    assert (unusable.status_code, "sk-secret" in unusable.text) == (422, False)
    api.refuse("PUT /llm-providers/openai", 422, "validation-error")
    refused = await admin.post(PROVIDERS, data=form)
    assert (refused.status_code, "sk-secret" in refused.text) == (422, False)
    tested = await admin.post(f"{PROVIDERS}/openai/test")
    assert "refused its key (401)" in tested.text
    for action in ("pause", "resume"):
        assert (await admin.post(f"{PROVIDERS}/openai/{action}")).status_code == 303
        assert f"POST /llm-providers/openai/{action}" in api.calls


async def test_providers_name_what_uses_their_models(admin: httpx.AsyncClient, api: FakeApi) -> None:
    kb = api.answers["GET /knowledge-bases"]["knowledge_bases"][0]
    agent = api.answers["GET /agents"]["agents"][0]
    prompt = api.answers["GET /prompts"]["prompts"][0]
    uses = [
        (kb, "embedding_model", "text-embedding-3-small", f"/knowledge-bases/{kb['kb_id']}"),
        (agent, "model", "gpt-4o-mini", f"/agents/{agent['agent_id']}"),
        (prompt, "model", "gpt-4o-mini", f"/prompts/{prompt['prompt_id']}"),
    ]
    for used, name, _, _ in uses:
        used[name] = "one-of-another-provider"
    shown = (await admin.get(PROVIDERS)).text
    assert not any(f'{address}"' in shown for *_, address in uses)
    assert ">nothing<" in shown
    for used, name, model, address in uses:
        used[name] = model
        assert f'{address}"' in (await admin.get(PROVIDERS)).text


async def test_before_a_provider_is_deleted_everything_that_uses_it_is_named(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    kb = api.answers["GET /knowledge-bases"]["knowledge_bases"][0]
    kb |= {"embedding_model": "text-embedding-3-small", "document_count": 42}
    asked = (await admin.get(f"{PROVIDERS}/openai/delete")).text
    assert "1 knowledge base with 42 documents uses its embedding models" in asked
    assert "</a>, an agent" in asked
    assert "</a>, a prompt" in asked
    for kind in ("agents", "prompts"):
        api.answers[f"GET /{kind}"][kind] = []
    assert "No agent or prompt uses its chat models" in (await admin.get(f"{PROVIDERS}/openai/delete")).text
    assert (await admin.post(f"{PROVIDERS}/openai/delete")).status_code == 303
    assert "DELETE /llm-providers/openai" in api.calls


async def test_a_tag_can_be_renamed_and_deleted_only_if_nothing_has_it(reader: httpx.AsyncClient, api: FakeApi) -> None:
    used = (await reader.get(TAGS)).text
    assert 'disabled title="Documents or knowledge bases have it."' in used
    tag = api.answers["GET /tags"]["tags"][0]
    tag |= {"document_count": 0, "knowledge_base_count": 0}
    assert f'action="{TAGS}/hr/delete"' in (await reader.get(TAGS)).text
    await reader.post(f"{TAGS}/hr/rename", data={"name": "People"})
    assert api.bodies["PUT /tags/hr"] == {"name": "People"}
    await reader.post(f"{TAGS}/hr/delete")
    assert "DELETE /tags/hr" in api.calls
    await reader.post(TAGS, data={"tag_id": "it", "name": ""})
    assert api.bodies["POST /tags"] == {"tag_id": "it", "name": "it"}
    api.refuse("POST /tags", 422, "reserved-id")
    refused = await reader.post(TAGS, data={"tag_id": "kb.x", "name": "Mine"})
    assert (refused.status_code, 'value="kb.x"' in refused.text) == (422, True)


async def test_a_webhook_shows_its_secret_once_and_how_deliveries_go(admin: httpx.AsyncClient, api: FakeApi) -> None:
    here = f"{WEBHOOKS}/{WEBHOOK_ID}"
    form: dict[str, Any] = {"url": "https://example.com/x", "event_types": ["document.indexed.v1"]}
    assert "whsec_..." in (await admin.post(WEBHOOKS, data=form)).text
    assert api.bodies["POST /webhooks"]["event_types"] == ["document.indexed.v1"]
    listed = (await admin.get(WEBHOOKS)).text
    assert "waits: <code>refused</code>" in listed
    assert 'id="poll"' in (await admin.get(here)).text, "a delivery waits"
    assert "did not take the test" in (await admin.post(f"{here}/test")).text
    for action, body in [("pause", {"enabled": False}), ("resume", {"enabled": True})]:
        await admin.post(f"{here}/{action}")
        assert api.bodies[f"PUT /webhooks/{WEBHOOK_ID}"] == body
    await admin.post(here, data={"url": "https://example.com/y"})
    assert api.bodies[f"PUT /webhooks/{WEBHOOK_ID}"]["event_types"] is None, "without a choice it gets all"
    assert "whsec_..." in (await admin.post(f"{here}/rotate-secret")).text
    await admin.post(f"{here}/deliveries/{DELIVERY_ID}/redeliver")
    assert "1 delivery that waits is given up" in (await admin.get(f"{here}/delete")).text
    await admin.post(f"{here}/delete")
    assert api.calls[-1] == f"DELETE /webhooks/{WEBHOOK_ID}"
    api.refuse("POST /webhooks", 422, "validation-error", fields=[{"field": "url", "message": "must be public"}])
    refused = await admin.post(WEBHOOKS, data={**form, "url": "https://localhost/"})
    assert (refused.status_code, "must be public" in refused.text) == (422, True)
    assert 'value="https://localhost/"' in refused.text


async def test_the_audit_log_is_filtered_by_whole_days_and_goes_on_by_cursor(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /audit"]["next_cursor"] = "later"
    page = (await admin.get(f"{SETTINGS}/audit?key=a&since=2026-01-01&until=2026-01-31")).text
    asked = api.queries["GET /audit"]
    assert (asked["from"][:19], asked["to"][:19]) == ("2026-01-01T00:00:00", "2026-02-01T00:00:00")
    assert "since=2026-01-01&amp;until=2026-01-31&amp;cursor=later" in page
    assert (await admin.get(f"{SETTINGS}/audit?since=yesterday")).status_code == 422


async def test_an_organization_is_deleted_only_by_its_id(admin: httpx.AsyncClient, api: FakeApi) -> None:
    assert "1 document and" in (await admin.get(f"{ORGANIZATION}/delete")).text
    refused = await admin.post(f"{ORGANIZATION}/delete", data={"name": "other"})
    assert (refused.status_code, "DELETE " in api.calls) == (422, False)
    assert (await admin.post(f"{ORGANIZATION}/delete", data={"name": "acme"})).status_code == 303
    assert dict(api.queries["DELETE "]) == {"confirm": "acme"}
    running = (await admin.get(ORGANIZATION)).text
    assert ("is being deleted" in running, 'id="poll"' in running) == (True, True)
    api.refuse("GET /deletion", 404, "not-found")
    assert "is being deleted" not in (await admin.get(ORGANIZATION)).text


async def test_whether_bad_metadata_refuse_a_document_is_shown_and_changed(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    page = f"{SETTINGS}/organization"
    shown = (await admin.get(page)).text
    assert "the document gets a warning" in shown
    assert "Refuse such documents" in shown
    changed = await admin.post(f"{page}/strict-metadata", data={"strict": "yes"})
    assert changed.headers["location"] == page
    assert api.bodies["PUT /settings"] == {"strict_metadata": True}
    api.answers["GET /settings"] = {"strict_metadata": True}
    assert "A document with such metadata is refused." in (await admin.get(page)).text
    await admin.post(f"{page}/strict-metadata", data={"strict": ""})
    assert api.bodies["PUT /settings"] == {"strict_metadata": False}
    api.refuse("GET /settings", 403, "key-limited")
    assert "Metadata that can't be stored" not in (await admin.get(page)).text
