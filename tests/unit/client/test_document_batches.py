"""Batches: documents go in few requests, and what was refused is reported with its reason."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kb_client import BatchFailed, Client

REFUSED = {"status": 422, "type": "validation-error", "detail": "Do this.", "fields": None}

LEFT_OUT = {"field": "metadata.authors", "message": "is a list"}


class BatchApi:
    """Accepts every document whose name is not `bad`."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.stored: list[bytes] = []
        self.put: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        if request.url.path.endswith("/documents:batch"):
            documents = json.loads(body)["documents"]
            self.batches.append(documents)
            outcomes = [self._outcome(each) for each in documents]
            refused = sum(each["problem"] is not None for each in outcomes)
            counts = {"accepted_count": len(outcomes) - refused, "refused_count": refused}
            return httpx.Response(200, json={**counts, "outcomes": outcomes})
        if request.url.path.endswith("/text"):
            self.stored.append(body)
            return httpx.Response(200, json={"text_ref": "ref"})
        self.put.append(json.loads(body))
        return httpx.Response(202, json={"document_id": "d", "revision": 1, "changed": True})

    def _outcome(self, document: dict[str, Any]) -> dict[str, Any]:
        is_bad = document.get("document_name") == "bad"
        revision = None if is_bad else 1
        problem = REFUSED if is_bad else None
        outcome = {"document_id": document["document_id"], "revision": revision, "changed": True, "problem": problem}
        # An older server says nothing of warnings.
        return outcome | ({"warnings": [LEFT_OUT]} if "authors" in document.get("metadata", {}) else {})


@pytest.fixture
def api() -> BatchApi:
    return BatchApi()


@pytest.fixture
def client(api: BatchApi) -> Client:
    http = httpx.Client(transport=httpx.MockTransport(api))
    return Client("http://kb", organization="acme", api_key="kb_0_0", http=http)


def put_all(client: Client, names: list[str], *, text: str = "text", on_progress: Callable[[int, int], None]) -> None:
    with client.documents.in_batches(on_progress=on_progress) as batches:
        for number, name in enumerate(names):
            batches.put(str(number), text, document_name=name, tag_ids=["t"])


def test_a_hundred_documents_are_one_request_and_the_rest_is_sent_at_the_end(api: BatchApi, client: Client) -> None:
    progress: list[tuple[int, int]] = []
    put_all(client, ["name"] * 250, on_progress=lambda answered, put: progress.append((answered, put)))
    assert [len(batch) for batch in api.batches] == [100, 100, 50]
    assert [each["document_id"] for batch in api.batches for each in batch] == [str(n) for n in range(250)]
    assert progress == [(100, 100), (200, 200), (250, 250)]


def test_refused_documents_are_named_with_the_reason_and_all_others_are_sent(api: BatchApi, client: Client) -> None:
    with pytest.raises(BatchFailed, match="2 of 150 documents were refused: 0: Do this") as caught:
        put_all(client, ["bad", *["name"] * 148, "bad"], on_progress=lambda *_: None)
    assert [(each.document_id, each.slug) for each in caught.value.failures] == [
        ("0", "validation-error"),
        ("149", "validation-error"),
    ]
    assert caught.value.accepted_count == 148


def test_a_batch_stays_within_the_size_of_a_request(api: BatchApi, client: Client) -> None:
    put_all(client, ["name"] * 9, text="w" * 400_000, on_progress=lambda *_: None)
    assert [len(batch) for batch in api.batches] == [4, 4, 1]


@pytest.mark.parametrize("length", [10, 600_000])
def test_what_of_a_file_could_not_be_read_is_sent_with_a_short_and_with_a_long_text(
    length: int, api: BatchApi, client: Client
) -> None:
    with client.documents.in_batches() as batches:
        batches.put("1", "w" * length, document_name="n", tag_ids=["t"], reading_warnings=["2 pages are pictures"])
    [sent] = [*api.put, *(each for batch in api.batches for each in batch)]
    assert sent["reading_warnings"] == ["2 pages are pictures"]


def test_a_text_that_is_too_long_for_an_event_is_stored_by_itself(api: BatchApi, client: Client) -> None:
    put_all(client, ["name"], text="w" * 600_000, on_progress=lambda *_: None)
    assert ([len(text) for text in api.stored], api.batches) == ([600_000], [])
    assert api.put[0]["text_ref"] == "ref"


def test_changes_and_deletions_are_sent_with_the_documents_in_their_order(api: BatchApi, client: Client) -> None:
    with client.documents.in_batches() as batches:
        batches.put("1", "text", document_name="name", tag_ids=[], upload_date="2026-01-31T12:00:00Z")
        batches.replace_tags("1", tag_ids=["t"])
        batches.replace_metadata("2", metadata={"since": datetime(2026, 1, 31, tzinfo=UTC)}, revision=7)
        batches.delete("1")
    [[put, tags, metadata, deletion]] = api.batches
    assert put["document_id"] == "1"
    assert tags == {"action": "replace_tags", "document_id": "1", "tag_ids": ["t"]}
    assert (metadata["action"], metadata["document_id"], metadata["revision"]) == ("replace_metadata", "2", 7)
    assert list(metadata["metadata"]["since"]) == ["$date"]
    assert deletion == {"action": "delete", "document_id": "1"}
    assert batches.accepted_count == 4


def test_after_an_error_in_the_block_nothing_more_is_sent(api: BatchApi, client: Client) -> None:
    def fail() -> None:
        with client.documents.in_batches() as batches:
            batches.put("1", "text", document_name="name", tag_ids=[])
            raise RuntimeError("the caller failed")

    with pytest.raises(RuntimeError, match="the caller failed"):
        fail()
    assert api.batches == []


def test_what_was_left_out_of_metadata_is_kept_by_document(client: Client) -> None:
    with client.documents.in_batches() as batches:
        batches.put("good", "text", document_name="n", tag_ids=["t"], metadata={"year": 2026})
        batches.put("bad", "text", document_name="n", tag_ids=["t"], metadata={"authors": ["a"]})
    assert {each: [dict(warning) for warning in found] for each, found in batches.warnings.items()} == {
        "bad": [LEFT_OUT]
    }
