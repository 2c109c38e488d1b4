"""An organization of its own that has something of every kind, with a client of it and a view of its stored rows."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from kb_client import AsyncClient
from kb_shared.mongo.database import Database, Row
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.waiting import until

TAG, STRICT_TAG, CHANGING_TAG, UNUSED_TAG = "staff", "long-texts", "changing", "unused"
LEAVE, TRAVEL = "leave", "travel"
"""Documents that are indexed and never change."""
LONG = "long"
"""Document that can't be indexed."""
CHANGING = "changing"
"""Document that checks index again."""
BROKEN, REFUSED = "broken", "refused"
"""Documents with a dead letter and with an unsendable message."""
LEAVE_PAGES: Final = (
    "# Leave\n\nEmployees have thirty days of leave a year.\n\n",
    "\n\n".join(map(paragraph, ("Requests", "Carrying over"))),
)
LEAVE_TEXT: Final = "".join(LEAVE_PAGES)
TRAVEL_TEXT: Final = "A night in a hotel in London may cost 220 euros."
LONG_TEXT: Final = "\n\n".join(map(paragraph, "abc"))
UPLOADED_AT: Final = datetime(2026, 1, 31, tzinfo=UTC)
DEMO: Final = "demo-extractive"
PROVIDER, PROVIDER_KEY = "openai", "sk-of-no-account"
QUESTION: Final = "How many days of leave do employees have?"


@dataclass(frozen=True, slots=True)
class StockedOrganization:
    """An organization that only these checks use. Each check changes things of its own, and leaves the others alone."""

    organization_id: str
    key_id: str
    http: httpx.AsyncClient
    """Connections of `client`, on which its requests can be seen."""
    client: AsyncClient
    running: RunningSystem
    kb_id: str
    """KB with the documents `LEAVE` and `TRAVEL`."""
    strict_kb_id: str
    """KB for which the document `LONG` has too many chunks."""
    changing_kb_id: str
    """KB with the document `CHANGING`."""
    prompt_id: str
    agent_id: str
    """Agent with one tool, which searches `kb_id`."""
    thread_id: str
    run_id: str
    """Run in `thread_id`, which cites `LEAVE`."""
    plan_id: str
    """Plan that was stopped with one repair."""

    @property
    def database(self) -> Database:
        return self.running.system.database

    async def rows(self, collection: str, **conditions: Any) -> list[Row]:
        """Return the rows of the organization that meet the conditions, in the order of their ids."""
        query = {"organization_id": self.organization_id, **conditions}
        return await self.database[collection].find(query).sort("_id").to_list()

    async def row(self, collection: str, **conditions: Any) -> Row:
        """Return the only row that meets the conditions."""
        [row] = await self.rows(collection, **conditions)
        return row

    async def until_row(self, collection: str, **conditions: Any) -> Row:
        """Return the only row that meets the conditions, once there is one."""

        async def is_there() -> bool:
            return len(await self.rows(collection, **conditions)) == 1

        await until(is_there, what=f"one of {collection} with {conditions}")
        return await self.row(collection, **conditions)

    async def until_none(self, collection: str, **conditions: Any) -> None:
        """Wait until no row meets the conditions."""

        async def is_empty() -> bool:
            return not await self.rows(collection, **conditions)

        await until(is_empty, what=f"none of {collection} with {conditions}")

    async def chunks(self, kb_id: str, document_id: str) -> list[Row]:
        """Return the chunks of a document that searches find, in the order of the text."""
        return sorted(
            await self.rows(f"kb_vectors_{kb_id}", document_id=document_id, until=None),
            key=lambda chunk: int(chunk["chunk_index"]),
        )

    async def until_active(self, kb_id: str) -> None:
        """Wait until nothing is left to do in a KB."""
        await self.until_row("knowledge_bases", _id=kb_id, status="active")
        await self.until_none("index_jobs", kb_id=kb_id, state={"$nin": ["failed", "paused"]})
