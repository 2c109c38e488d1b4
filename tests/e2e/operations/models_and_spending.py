"""Checks of providers, models, usage and budgets."""

from collections import Counter
from datetime import timedelta
from typing import Any

from kb_shared.mongo.database import Row
from kb_shared.mongo.stored_time import now
from kb_shared.secrets.key_ring import KeyRing, Sealed
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import DEMO, PROVIDER, PROVIDER_KEY, StockedOrganization
from tests.e2e.system import MODEL

NANO_USD = 10**9
LOCAL = "local"


def unsealed_key(organization: StockedOrganization, row: Row) -> str:
    ring = KeyRing.parse(organization.running.system.stack.environment["KB_PROVIDER_KEYS"])
    sealed = Sealed(row["key_id"], row["nonce"], row["ciphertext"])
    return ring.open(sealed, organization_id=organization.organization_id, provider=row["provider"])


@checks("llm_providers.put")
async def check_put_provider(organization: StockedOrganization) -> None:
    given: dict[str, Any] = {"requests_per_minute": 10, "tokens_per_minute": 1000}
    answer = await organization.client.llm_providers.put("mistral", api_key="sk-of-a-test-4711", **given)
    row = await organization.row("llm_providers", provider="mistral")
    assert_shows(answer, row)
    assert_holds(row, api_key_last4="4711", updated_by=organization.key_id, **given)
    assert unsealed_key(organization, row) == "sk-of-a-test-4711"


@checks("llm_providers.get")
async def check_get_provider(organization: StockedOrganization) -> None:
    answer = await organization.client.llm_providers.get(PROVIDER)
    row = await organization.row("llm_providers", provider=PROVIDER)
    assert_shows(answer, row)
    assert unsealed_key(organization, row) == PROVIDER_KEY


@checks("llm_providers.list")
async def check_list_providers(organization: StockedOrganization) -> None:
    await organization.client.llm_providers.pause(PROVIDER)
    answer = await organization.client.llm_providers.list(limit=100)
    rows = await organization.rows("llm_providers")
    pause = await organization.row("provider_pauses", provider=PROVIDER)
    assert answer.total_count == len(rows)
    for shown, row in zip(answer.llm_providers, rows, strict=True):
        paused = {"paused_at": pause["paused_at"]} if row["provider"] == PROVIDER else {}
        assert_shows(shown, row | paused)
    await organization.client.llm_providers.resume(PROVIDER)


@checks("llm_providers.delete")
async def check_delete_provider(organization: StockedOrganization) -> None:
    await organization.client.llm_providers.put("cohere", api_key="sk-deleted")
    assert await organization.rows("llm_providers", provider="cohere")
    answer = await organization.client.llm_providers.delete("cohere")
    assert "deleted" in answer.message
    assert not await organization.rows("llm_providers", provider="cohere")


@checks("llm_providers.test")
async def check_test_provider(organization: StockedOrganization) -> None:
    before = await organization.rows("spu_ledger")
    answer = await organization.client.llm_providers.test(LOCAL, model=MODEL)
    assert (answer.provider, answer.model, answer.ok, answer.error) == (LOCAL, MODEL, True, None)
    assert await organization.rows("spu_ledger") == before


@checks("llm_providers.pause")
async def check_pause_provider(organization: StockedOrganization) -> None:
    answer = await organization.client.llm_providers.pause("voyage")
    row = await organization.row("provider_pauses", provider="voyage")
    assert_shows(answer, row)
    assert_holds(row, paused_by=organization.key_id)


@checks("llm_providers.resume")
async def check_resume_provider(organization: StockedOrganization) -> None:
    await organization.client.llm_providers.pause("gemini")
    assert await organization.rows("provider_pauses", provider="gemini")
    answer = await organization.client.llm_providers.resume("gemini")
    assert (answer.provider, answer.paused_at, answer.paused_by) == ("gemini", None, None)
    assert not await organization.rows("provider_pauses", provider="gemini")


@checks("embedding_models.list")
async def check_embedding_models(organization: StockedOrganization) -> None:
    found = [each async for each in organization.client.embedding_models.list.iterate(limit=100)]
    usable = {row["provider"] for row in await organization.rows("llm_providers")} | {LOCAL}
    assert PROVIDER in {each.provider for each in found}
    for each in found:
        assert each.key_present is (each.provider in usable), each.name
    answer = await organization.client.embedding_models.list(key_present=True, limit=100)
    assert answer.total_count == len(answer.embedding_models)
    assert answer.embedding_models == [each for each in found if each.key_present]


@checks("chat_models.list")
async def check_chat_models(organization: StockedOrganization) -> None:
    found = [each async for each in organization.client.chat_models.list.iterate(limit=100)]
    usable = {row["provider"] for row in await organization.rows("llm_providers")} | {LOCAL}
    assert {PROVIDER, LOCAL} <= {each.provider for each in found}
    assert DEMO in {each.name for each in found}
    for each in found:
        assert each.key_present is (each.provider in usable), each.name


@checks("usage.get")
async def check_usage(organization: StockedOrganization) -> None:
    until = now()
    since = until.replace(hour=0, minute=0, second=0, microsecond=0)
    answer, rows = await undisturbed(
        lambda: organization.client.usage.get(since=since, until=until, group_by="kb,model,operation,day"),
        lambda: organization.rows("spu_ledger", created_at={"$gte": since, "$lt": until}),
    )
    spus: Counter[tuple[str | None, ...]] = Counter()
    nano_usd: Counter[tuple[str | None, ...]] = Counter()
    for row in rows:
        group = (row["kb_id"], row["model"], row["operation"], row["created_at"].date().isoformat())
        spus[group] += row["count"]
        nano_usd[group] += row["nano_usd"]
    shown = {(each.kb_id, each.model, each.operation, str(each.day)): each for each in answer.usage}
    assert shown.keys() == spus.keys()
    names = {kb["_id"]: kb["name"] for kb in await organization.rows("knowledge_bases")}
    for group, each in shown.items():
        assert (each.spus, each.nano_usd) == (spus[group], nano_usd[group])
        assert each.usd == nano_usd[group] / NANO_USD
        assert each.kb_name == names.get(each.kb_id or "")
    assert (answer.since, answer.until) == (since, until)
    assert (answer.total_spus, answer.total_nano_usd) == (spus.total(), nano_usd.total())
    assert answer.total_usd == nano_usd.total() / NANO_USD


@checks("budget.get")
async def check_get_budget(organization: StockedOrganization) -> None:
    await organization.client.budget.put(soft=1, hard=10**6, soft_usd=0.5)
    answer, stored = await undisturbed(organization.client.budget.get, lambda: _stored_budget(organization))
    assert_shows(answer, stored | {"status": "soft_exceeded"})


@checks("budget.put")
async def check_put_budget(organization: StockedOrganization) -> None:
    answer, stored = await undisturbed(
        lambda: organization.client.budget.put(soft=10**5, hard=10**7, soft_usd=2.5),
        lambda: _stored_budget(organization),
    )
    assert_shows(answer, stored | {"status": "ok"})
    row = await organization.row("budgets")
    assert_holds(row, soft=10**5, hard=10**7, soft_nano_usd=2.5 * NANO_USD, hard_nano_usd=None)


async def _stored_budget(organization: StockedOrganization) -> Row:
    """Return the limits with what this month's charges add up to; nothing before the first limits are set."""
    charges = await organization.rows("spu_ledger")
    begin = now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (begin + timedelta(days=31)).replace(day=1)
    this_month = [row for row in charges if row["created_at"] >= begin]
    for row in await organization.rows("budgets"):
        return {
            **{name: row[name] for name in ("soft", "hard", "month")},
            **{f"{name}_usd": _usd(row[f"{name}_nano_usd"]) for name in ("soft", "hard")},
            "reserved": sum(each["count"] for each in row["reservations"]),
            "reserved_usd": _usd(sum(each["nano_usd"] for each in row["reservations"])),
            "used": sum(each["count"] for each in this_month),
            "used_usd": _usd(sum(each["nano_usd"] for each in this_month)),
            "resets_at": end,
        }
    return {}


def _usd(nano_usd: int | None) -> float | None:
    return None if nano_usd is None else nano_usd / NANO_USD
