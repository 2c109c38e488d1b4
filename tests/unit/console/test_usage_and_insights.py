"""Usage with its budget, and insights."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx

from kb_console.usage.time_range import time_range
from kb_console.usage.usage_table import MOST_GROUPS, OTHERS, daily_table, forecast, share_of_month
from kb_contracts.api.budgets import BudgetView
from kb_contracts.api.usage import UsageRow
from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.operator_pages import ORG

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
USAGE = f"{ORG}/usage"
BUDGET = f"{USAGE}/budget"


def charge(day: int, model: str, usd: float, spus: int = 1) -> UsageRow:
    return UsageRow(day=date(2026, 3, day), model=model, usd=usd, spus=spus, nano_usd=round(usd * 1e9))


def test_a_range_of_days_has_whole_days_of_which_the_last_is_today() -> None:
    week = time_range("7d", NOW)
    assert (week.since, week.until) == (datetime(2026, 3, 3, tzinfo=UTC), NOW)
    assert (len(week.days()), week.days()[-1]) == (7, date(2026, 3, 9))
    assert time_range("month", NOW).since == datetime(2026, 3, 1, tzinfo=UTC)
    assert time_range("30d", NOW).query is None, "the usual one is not in addresses"


def test_a_table_of_usage_has_all_days_and_adds_small_groups_up() -> None:
    rows = [charge(1, f"model-{number}", number + 1.0) for number in range(MOST_GROUPS + 2)]
    days = [date(2026, 3, 1), date(2026, 3, 2)]
    table = daily_table([*rows, charge(2, "model-6", 2.5)], days, by="model", unit="usd")
    assert table.groups == ("model-6", "model-5", "model-4", "model-3", "model-2", OTHERS)
    assert table.days == {days[0]: (7.0, 6.0, 5.0, 4.0, 3.0, 3.0), days[1]: (2.5, 0.0, 0.0, 0.0, 0.0, 0.0)}
    assert daily_table(rows, days, by="model", unit="spus").days[days[0]] == (1.0, 1.0, 1.0, 1.0, 1.0, 2.0)


def test_a_forecast_goes_on_as_the_month_began_and_is_none_on_its_first_day() -> None:
    example: Any = BudgetView.model_config["json_schema_extra"]
    month = {"month": "2026-03", "resets_at": "2026-04-01T00:00:00Z"}
    budget = BudgetView.model_validate({**example["examples"][0], **month})
    assert share_of_month(budget, datetime(2026, 3, 16, 12, tzinfo=UTC)) == 0.5
    assert forecast(10.0, 0.5) == 20.0
    assert forecast(10.0, share_of_month(budget, datetime(2026, 3, 1, 9, tzinfo=UTC))) is None


async def test_usage_asks_for_the_range_of_its_address_and_says_when_nothing_was_charged(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    shown = (await reader.get(f"{USAGE}?range=24h&by=model")).text
    asked = api.queries["GET /usage"]
    assert datetime.fromisoformat(asked["to"]) - datetime.fromisoformat(asked["from"]) == timedelta(days=1)
    assert f'href="{ORG}/insights?range=24h"' in shown, "the range is kept"
    assert "uPlot" in shown
    api.answers["GET /usage"] |= {"usage": [], "total_usd": 0, "total_spus": 0}
    assert "Nothing was charged" in (await reader.get(USAGE)).text
    assert (await reader.get(f"{USAGE}?range=odd")).status_code == 422


async def test_usage_is_downloaded_as_the_api_writes_it(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.texts["GET /usage"] = "day,spus\r\n2026-01-31,9\r\n"
    file = await reader.get(f"{USAGE}.csv?by=kb&range=7d")
    assert [*csv.reader(io.StringIO(file.text))] == [["day", "spus"], ["2026-01-31", "9"]]
    assert file.headers["content-type"].startswith("text/csv")
    assert file.headers["content-disposition"].startswith('attachment; filename="usage-')
    assert api.queries["GET /usage"]["group_by"] == "kb,day"


async def test_a_budget_is_set_and_a_limit_that_stops_work_only_when_it_is_wanted(
    admin: httpx.AsyncClient, api: FakeApi
) -> None:
    assert 'value="100000"' in (await admin.get(BUDGET)).text
    set_ = await admin.post(BUDGET, data={"soft": "", "hard": "200000", "hard_usd": "2.5"})
    assert set_.headers["location"] == f"{USAGE}?done=budget"
    assert api.bodies["PUT /budget"] == {"soft": None, "hard": 200000, "soft_usd": None, "hard_usd": 2.5}
    api.bodies.clear()
    asked = (await admin.post(BUDGET, data={"hard": "1250"})).text
    assert ("Set it nevertheless" in asked, 'value="1250"' in asked, api.bodies) == (True, True, {})
    await admin.post(BUDGET, data={"hard": "1250", "confirmed": "yes"})
    assert api.bodies["PUT /budget"]["hard"] == 1250


async def test_a_budget_that_is_refused_keeps_what_was_typed(admin: httpx.AsyncClient, api: FakeApi) -> None:
    unusable = await admin.post(BUDGET, data={"soft": "many", "hard": "7"})
    assert (unusable.status_code, "whole number" in unusable.text, 'value="many"' in unusable.text) == (422, True, True)
    fields = [{"field": "soft", "message": "must not be greater than hard"}]
    api.refuse("PUT /budget", 422, "validation-error", fields=fields)
    refused = await admin.post(BUDGET, data={"soft": "9000", "hard": "8000"})
    assert (refused.status_code, "must not be greater" in refused.text) == (422, True)
    assert 'value="9000"' in refused.text


async def test_only_an_admin_may_change_the_budget(reader: httpx.AsyncClient) -> None:
    for page in (USAGE, BUDGET):
        assert 'disabled title="Your API key lacks the scope admin."' in (await reader.get(page)).text


async def test_insights_lead_from_a_query_to_its_search_test(reader: httpx.AsyncClient, api: FakeApi) -> None:
    shown = (await reader.get(f"{ORG}/insights?by=slow&kb={KB_ID}&origin=sdk&range=7d")).text
    test = f"{ORG}/knowledge-bases/{KB_ID}/search?q=How+many+days+of+leave+are+there%3F"
    assert f'href="{test}"' in shown
    assert f'href="{ORG}/search?q=How' in (await reader.get(f"{ORG}/insights")).text, "without one, over all"
    api.answers["GET /insights/queries"]["queries"][0]["without_results"] = 3
    shown = (await reader.get(f"{ORG}/insights?by=slow&kb={KB_ID}&origin=sdk&range=7d")).text
    assert f'href="{ORG}/knowledge/new?title=How+many' in shown
    asked = api.queries["GET /insights/queries"]
    assert (asked["by"], asked["kb_id"], asked["origin"]) == ("slow", KB_ID, "sdk")
    assert f'href="{ORG}/usage?range=7d"' in shown


async def test_insights_of_one_kind_of_client_count_only_its_searches(reader: httpx.AsyncClient, api: FakeApi) -> None:
    await reader.get(f"{ORG}/insights?origin=mcp")
    for call in ("searches", "queries", "citations"):
        assert api.queries[f"GET /insights/{call}"]["origin"] == "mcp"
    offered = (await reader.get(f"{ORG}/insights?origin=dashboard")).status_code
    assert offered == 422, "the API knows it as console"


async def test_insights_tell_how_long_a_document_takes_without_a_call_for_each_knowledge_base(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    [group] = api.answers["GET /insights/searches"]["groups"]
    group["mean_indexing_s"] = 95.0
    assert "<td>95 s</td>" in (await reader.get(f"{ORG}/insights")).text
    assert not [call for call in api.queries if call.endswith("/stats")]
    group["mean_indexing_s"] = None
    assert "<td>not known</td>" in (await reader.get(f"{ORG}/insights")).text


async def test_insights_lead_to_the_documents_and_entries_that_are_cited_or_never_are(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    [cited, *_] = api.answers["GET /insights/citations"]["documents"]
    entry = {**cited, "document_id": "entry-a"}
    api.answers["GET /insights/citations"]["documents"] = [cited, entry]
    document_id = cited["document_id"]
    shown = (await reader.get(f"{ORG}/insights")).text
    assert shown.count(f'href="{ORG}/documents/{document_id}"') == 2, "cited, and never cited"
    assert shown.count(f'href="{ORG}/knowledge/entries/a"') == 2
    shown = (await reader.get(f"{ORG}/insights?kb={KB_ID}")).text
    assert f'href="{ORG}/knowledge-bases/{KB_ID}/documents/{document_id}"' in shown


async def test_insights_without_searches_citations_or_knowledge_bases_say_so(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /insights/searches"]["groups"] = []
    api.answers["GET /insights/queries"] |= {"queries": [], "total_count": 0}
    api.answers["GET /insights/citations"] |= {"documents": [], "total_count": 0}
    api.answers["GET /knowledge-bases"] |= {"knowledge_bases": [], "total_count": 0}
    shown = (await reader.get(f"{ORG}/insights")).text
    for words in ("Nothing was searched", "no such query", "No answer has cited", "Every indexed document"):
        assert words in shown
