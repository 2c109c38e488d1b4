"""`GET /events` returns each event once, in an order in which nothing appears behind a reader's back."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app
from kb_api.outcome_events import event_log, event_stream, list_events
from kb_api.outcome_events.list_events import EventLister
from kb_contracts.outcomes import BudgetSoftExceeded, DocumentIndexed, DocumentRemoved, Outcome
from kb_local.ports import LOOPBACK, NO_TLS, free_port
from kb_local.server import accepts_connections
from kb_shared import failpoints
from kb_shared.http import server
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import MongoSession, in_transaction
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

NewOrganization = Callable[..., Awaitable[OrganizationClient]]
KB = "65f0000000000000000000aa"
OTHER_KB = "65f0000000000000000000bb"


class ProcessDied(BaseException):
    """Stands for a process that is killed at a failpoint."""


def indexed(organization: OrganizationClient, document_id: str, *, kb_id: str = KB) -> Outcome:
    return DocumentIndexed(
        organization_id=organization.organization_id, kb_id=kb_id, document_id=document_id, revision=1, chunk_count=3
    )


def removed(organization: OrganizationClient, document_id: str, *, kb_id: str = KB) -> Outcome:
    return DocumentRemoved(organization_id=organization.organization_id, kb_id=kb_id, document_id=document_id)


async def happen(organization: OrganizationClient, *outcomes: Outcome) -> None:
    """Announce outcomes, each in the transaction of a change."""

    async def change(session: MongoSession) -> None:
        announcements = [Announcement(each, seq=seq) for seq, each in enumerate(outcomes)]
        await announce(organization.database, session, *announcements, source="/test")

    await in_transaction(organization.database, change)


async def list_all(api: KbApi) -> None:
    while await api.event_lister.list_once():
        pass


async def read_all(organization: OrganizationClient, **query: Any) -> list[dict[str, Any]]:
    """Read page by page, as a client does."""
    events: list[dict[str, Any]] = []
    while True:
        page = await organization.ok("GET", "/events", **query)
        events += page["events"]
        query["after"] = page["next_after"]
        if not page["has_more"]:
            return events


def documents_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["document_id"] for event in events]


async def test_pages_return_each_event_of_the_organization_once_and_in_order(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    before = await organization.ok("GET", "/events")
    assert before == {"events": [], "next_after": before["next_after"], "has_more": False}
    for n in range(5):
        await happen(organization, indexed(organization, f"d{n}"))
        await happen(other, indexed(other, f"other-{n}"))
        await list_all(organization.api)
    events = await read_all(organization, limit=2)
    assert documents_of(events) == [f"d{n}" for n in range(5)]
    assert [event["position"] for event in events] == [before["next_after"] + 1 + n for n in range(5)]
    assert await read_all(organization, after=before["next_after"], limit=3) == events
    assert await read_all(organization, after=events[2]["position"]) == events[3:]
    assert await read_all(organization, after="latest") == []
    first = events[0]
    assert (first["type"], first["source"]) == ("document.indexed.v1", "/test")
    assert first["data"] == indexed(organization, "d0").model_dump(exclude_none=True)
    assert documents_of(await read_all(other)) == [f"other-{n}" for n in range(5)]


async def test_an_event_that_commits_late_comes_behind_what_was_read_before(organization: OrganizationClient) -> None:
    database = organization.database
    async with database.client.start_session() as session, await session.start_transaction():
        await announce(database, session, Announcement(indexed(organization, "early"), seq=0), source="/test")
        await happen(organization, indexed(organization, "late"))
        await list_all(organization.api)
        page = await organization.ok("GET", "/events")
        assert documents_of(page["events"]) == ["late"]
    await list_all(organization.api)
    assert documents_of(await read_all(organization, after=page["next_after"])) == ["early"]


async def test_events_of_a_document_keep_their_order_in_one_batch(organization: OrganizationClient) -> None:
    await happen(organization, indexed(organization, "d"), removed(organization, "d"), indexed(organization, "d"))
    await list_all(organization.api)
    types = [event["type"] for event in await read_all(organization)]
    assert types == ["document.indexed.v1", "document.removed.v1", "document.indexed.v1"]


async def test_processes_that_list_at_the_same_time_list_each_event_once(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when one of them has lost the lease and does not know it."""
    monkeypatch.setattr(list_events, "_BATCH", 3)
    await asyncio.gather(*(happen(organization, indexed(organization, f"d{n}")) for n in range(20)))

    async def list_and_read() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        lister, after = EventLister(organization.database), 0
        after = (await organization.ok("GET", "/events", after="latest"))["next_after"]
        while len(seen) < 20:
            await lister._list_some()
            seen += (page := await organization.ok("GET", "/events", after=after))["events"]
            after = page["next_after"]
        return seen

    async def unhindered(self: EventLister) -> bool:
        return True

    monkeypatch.setattr(EventLister, "_hold_lease", unhindered)
    first, second, third = await asyncio.gather(*(list_and_read() for _ in range(3)))
    assert first == second == third
    assert len({event["id"] for event in first}) == 20
    assert [event["position"] - first[0]["position"] for event in first] == list(range(20))


@pytest.mark.parametrize("failpoint", failpoints.OF_EVENTS)
async def test_wherever_the_process_dies_each_event_is_listed_once(
    organization: OrganizationClient, failpoint: str
) -> None:
    await list_all(organization.api)
    await happen(organization, *(indexed(organization, f"d{n}") for n in range(3)))

    async def die() -> None:
        raise ProcessDied

    with pytest.raises(ProcessDied):
        async with failpoints.during(failpoint, die):
            await organization.api.event_lister.list_once()
    await list_all(organization.api)
    events = await read_all(organization)
    assert sorted(documents_of(events)) == ["d0", "d1", "d2"]
    assert len({event["id"] for event in events}) == 3


async def test_a_position_whose_events_are_not_kept_any_more_is_refused(organization: OrganizationClient) -> None:
    start = (await organization.ok("GET", "/events"))["next_after"]
    await happen(organization, *(indexed(organization, f"d{n}") for n in range(3)))
    await list_all(organization.api)
    rows = organization.database[event_log.NAME]
    await rows.delete_one({"organization_id": organization.organization_id, "position": start + 1})
    assert await organization.refused("GET", "/events", after=start) == (410, "events-expired")
    assert len(await read_all(organization, after=start + 1)) == 2
    assert len(await read_all(organization)) == 2
    assert await organization.refused("GET", "/events", after=start + 4) == (410, "events-expired")
    # All have expired: a reader that is up to date goes on.
    await rows.delete_many({"organization_id": organization.organization_id})
    assert await read_all(organization, after=start + 3) == []
    assert await read_all(organization) == []
    # After a restore, or a deletion, positions begin above all that were given.
    await organization.database[event_log.POSITIONS].delete_many({"organization_id": organization.organization_id})
    assert await organization.refused("GET", "/events", after=start + 3) == (410, "events-expired")


async def test_filters_leave_out_other_events_and_go_on_behind_them(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = BudgetSoftExceeded(
        organization_id=organization.organization_id, month="2026-01", unit="spu", soft=1, used=2
    )
    for outcome in (
        indexed(organization, "a"),
        indexed(organization, "b", kb_id=OTHER_KB),
        removed(organization, "c"),
        budget,
        removed(organization, "d", kb_id=OTHER_KB),
    ):
        await happen(organization, outcome)
        await list_all(organization.api)
    monkeypatch.setattr(event_log, "SCANNED", 2)
    assert documents_of(await read_all(organization, kb_ids=KB)) == ["a", "c"]
    assert documents_of(await read_all(organization, kb_ids=f"{KB},{OTHER_KB}")) == ["a", "b", "c", "d"]
    assert documents_of(await read_all(organization, kb_ids=OTHER_KB, types="document.removed.v1")) == ["d"]
    both = "budget.soft_exceeded.v1,document.indexed.v1"
    assert [event["data"].get("kb_id") for event in await read_all(organization, types=both)] == [KB, OTHER_KB, None]
    for query in ({"types": "document.lost.v1"}, {"kb_ids": "x"}, {"after": "-1"}, {"after": "x"}, {"after": 2**53}):
        assert await organization.refused("GET", "/events", **query) == (422, "validation-error")


async def limited(organization: OrganizationClient, *kb_ids: str) -> OrganizationClient:
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(key_id, organization.organization_id, "limited", frozenset(), datetime.now(UTC), None, None)
    key = replace(key, scopes_in_kbs=frozenset({Scope.READ}), kb_ids=kb_ids)
    pepper = organization.api.settings.api_key_pepper.get_secret_value()
    assert await api_keys.insert(organization.database, key, whole_key=whole_key, pepper=pepper)
    return replace(organization, key=whole_key)


async def test_a_limited_key_gets_the_events_of_its_knowledge_bases_only(organization: OrganizationClient) -> None:
    await happen(
        organization,
        indexed(organization, "mine"),
        indexed(organization, "others", kb_id=OTHER_KB),
        BudgetSoftExceeded(organization_id=organization.organization_id, month="2026-01", unit="spu", soft=1, used=2),
    )
    await list_all(organization.api)
    reader = await limited(organization, KB)
    assert documents_of(await read_all(reader)) == ["mine"]
    assert documents_of(await read_all(reader, kb_ids=KB)) == ["mine"]
    assert await reader.refused("GET", "/events", kb_ids=f"{KB},{OTHER_KB}") == (404, "not-found")


class StreamReader:
    """Keeps what a client of a stream receives."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.last_id: str | None = None
        self.heartbeats = 0
        self.has_ended = False

    async def read(self, response: httpx.Response) -> None:
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            match name:
                case "id":
                    self.last_id = value
                case "data":
                    self.events.append(json.loads(value))
                case "":
                    self.heartbeats += value == "heartbeat"
        self.has_ended = True


@pytest.fixture
async def stop() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def served(
    api: KbApi, organization: OrganizationClient, stop: asyncio.Event
) -> AsyncIterator[OrganizationClient]:
    """The organization at a real server, with all that follows and lists events."""
    api.event_feed.is_closed = False
    app, port = create_app(api), free_port()
    settings = api.settings.model_copy(update={"http_port": port})
    running = [
        asyncio.create_task(part)
        for part in (server.run(app, settings, stop), api.event_feed.run(stop), api.event_lister.run(stop))
    ]
    await until(lambda: accepts_connections(LOOPBACK, port), what="the server")
    url = f"http://{LOOPBACK}:{port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS, timeout=300) as http:
        yield replace(organization, http=http)
        stop.set()
        await asyncio.gather(*running)
    api.event_feed.is_closed = False


@asynccontextmanager
async def following(
    organization: OrganizationClient, *, last_event_id: str | None = None, **query: Any
) -> AsyncIterator[StreamReader]:
    headers = {"Authorization": f"Bearer {organization.key}", "Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    path, followed = f"{organization.base}/events", StreamReader()
    async with organization.http.stream("GET", path, headers=headers, params=query) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        reading = asyncio.create_task(followed.read(response))
        try:
            yield followed
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def test_a_stream_gets_events_as_they_happen_and_goes_on_where_it_was_interrupted(
    served: OrganizationClient,
) -> None:
    await happen(served, indexed(served, "before"))
    await until(lambda: _is_listed(served, 1), what="the first event")
    async with following(served) as followed, following(served, kb_ids=OTHER_KB, after="latest") as other:
        await happen(served, indexed(served, "a"))
        await until(lambda: len(followed.events) == 1)
        await happen(served, indexed(served, "b", kb_id=OTHER_KB))
        await until(lambda: (len(followed.events), len(other.events)) == (2, 1))
    assert documents_of(followed.events) == ["a", "b"]
    assert documents_of(other.events) == ["b"]
    assert followed.last_id == other.last_id == str(followed.events[-1]["position"])
    assert followed.events == await read_all(served, after=followed.events[0]["position"] - 1)
    await happen(served, indexed(served, "c"))
    # The address keeps its `after`; browsers send where they were beside it.
    async with following(served, last_event_id=followed.last_id, after="latest") as again:
        await happen(served, indexed(served, "d"))
        await until(lambda: len(again.events) == 2)
    assert documents_of(again.events) == ["c", "d"]


async def _is_listed(organization: OrganizationClient, count: int) -> bool:
    return len((await organization.ok("GET", "/events"))["events"]) == count


async def test_a_stream_that_gets_nothing_gets_heartbeats_that_tell_how_far_it_has_looked(
    served: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.05)
    async with following(served, kb_ids=OTHER_KB) as followed:
        await until(lambda: followed.heartbeats > 0)
        begun = int(followed.last_id or 0)
        await happen(served, indexed(served, "a"))
        await until(lambda: int(followed.last_id or 0) == begun + 1, what="the heartbeat behind the event")
        assert followed.events == []


async def test_a_stream_ends_with_its_key_and_with_the_service(
    served: OrganizationClient, new_organization: NewOrganization, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.05)
    reader = await new_organization(Scope.READ, organization_id=served.organization_id)
    reader = replace(reader, http=served.http)
    async with following(reader) as of_reader, following(served) as of_admin:
        await until(lambda: of_reader.heartbeats > 0 < of_admin.heartbeats)
        await served.ok("DELETE", f"/api-keys/{reader.key.split('_')[1]}")
        await until(lambda: of_reader.has_ended, what="the end of the stream of the revoked key")
        assert not of_admin.has_ended
        stop.set()
        await until(lambda: of_admin.has_ended, what="the end of the stream")


async def test_streams_of_a_key_are_limited_and_do_not_begin_at_a_position_that_has_expired(
    served: OrganizationClient, new_organization: NewOrganization
) -> None:
    accept = {"Accept": "text/event-stream", "Authorization": f"Bearer {served.key}"}
    expired = await served.http.get(f"{served.base}/events", headers=accept, params={"after": 1})
    assert (expired.status_code, expired.json()["type"]) == (410, "events-expired")
    other = replace(await new_organization(organization_id=served.organization_id), http=served.http)
    async with AsyncExitStack() as streams:
        for _ in range(served.api.settings.max_event_streams_of_key):
            await streams.enter_async_context(following(served))
        refused = await served.http.get(f"{served.base}/events", headers=accept)
        assert (refused.status_code, refused.json()["type"]) == (429, "too-many-at-once")
        async with following(other):
            pass
    async with following(served):
        pass
