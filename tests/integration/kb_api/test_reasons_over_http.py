"""What is wrong with an event is said in the same words, whether it comes over Kafka or over HTTP."""

import json
from typing import Any, Final

from tests.contract import wrong_events
from tests.integration.kb_api.organization import OrganizationClient

BATCH: Final = 20
OTHER_OVER_HTTP: Final = {
    "organization": "is in the path of the request",
    "no organization": "is in the path of the request",
    "no date": "is now by default",
    "no revision": "is given by the service",
    "revision misspelled": "is given by the service",
    "revision null": "is given by the service",
    "12 wrong tags": "lists more fields",
    "revision 1e400": "is no JSON for the parser of bodies",
    "metadata value 1e400": "is no JSON for the parser of bodies",
    "metadata value NaN": "is no JSON for the parser of bodies",
    "NaN": "is no JSON for the parser of bodies",
    "Infinity": "is no JSON for the parser of bodies",
    "number with 5,000 digits": "is no JSON for the parser of bodies",
}
"""Rows that differ, with the reason. The parser of bodies also refuses lone surrogates."""


def _rows() -> dict[str, bytes]:
    tables = (
        wrong_events.WRONG_IDS, wrong_events.WRONG_REVISIONS, wrong_events.WRONG_DATES, wrong_events.WRONG_TAGS,
        wrong_events.WRONG_METADATA, wrong_events.WRONG_TEXTS, wrong_events.WRONG_PAGES,
    )  # fmt: skip
    return {
        name: value
        for table in tables
        for name, value in table.items()
        if b"\\ud" not in value
        if not name.startswith(tuple(OTHER_OVER_HTTP)) and name not in {"everything of a wrong type", "data empty"}
    }


def _entry(value: bytes) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(value)["data"]
    return {name: each for name, each in data.items() if name != "organization_id"}


async def test_an_event_that_is_wrong_has_the_same_reasons_over_kafka_and_over_http(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/settings", json={"strict_metadata": True})
    rows = list(_rows().items())
    assert len(rows) > 100
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        entries = [_entry(value) for _, value in batch]
        answer = await organization.ok("POST", "/documents:batch", json={"documents": entries})
        for (name, value), outcome in zip(batch, answer["outcomes"], strict=True):
            assert outcome["problem"] is not None, name
            fields = outcome["problem"]["fields"]
            # Over HTTP a field that does not exist is refused, too.
            said = [f"{each['field']}: {each['message']}" for each in fields if "is not a field" not in each["message"]]
            assert (name, "bad-data: " + "; ".join(said)) == (name, wrong_events.refusal(value))


async def test_a_body_that_is_no_json_is_named_for_what_it_is(organization: OrganizationClient) -> None:
    headers = {"Authorization": f"Bearer {organization.key}", "Content-Type": "application/json"}
    for name, value in wrong_events.NOT_JSON.items():
        if not value or len(value) > 1_000_000:
            continue
        answer = await organization.http.put(f"{organization.base}/documents/d", content=value, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (400, "malformed-json")
        said = wrong_events.refusal(value).partition("is not JSON: ")[2]
        assert (name, answer.json()["detail"]) == (name, f"The body is not usable JSON: {said}.")


async def test_a_parameter_of_a_request_is_refused_in_the_same_language(organization: OrganizationClient) -> None:
    answer = await organization.request("GET", "/documents", limit="many", documentids="a", kb_id="x y")
    assert answer.json()["fields"] == [
        {"field": "documentids", "message": "is not a query parameter here; did you mean document_ids?"}
    ]
    answer = await organization.request("GET", "/documents", limit="many", kb_id="x y", status="Indexed")
    fields = {each["field"]: each["message"] for each in answer.json()["fields"]}
    assert fields["limit"] == "must be an integer, not a text of 4 characters"
    assert fields["status"].endswith(', not "Indexed"')
    assert organization.key not in answer.text
