"""`agents`: instructions, a model, and KBs as tools. An agent is one row, so its tools change together."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import AgentKey, KnowledgeBaseKey
from kb_shared.mongo.rows import RowMapper, match_version

NAME = "agents"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)])]


@dataclass(frozen=True, slots=True)
class KnowledgeBaseTool:
    """A KB that an agent may search."""

    tool_id: str
    kb_id: str
    tool_name: str
    """Name of the tool, unique in the agent."""
    tool_description: str
    default_top_k: int
    default_min_score: float | None
    """Minimum relevance, 0 to 1; None: the setting of the KB."""
    kb_name: str | None = None
    """Name of the KB when the tool was made or the KB was deleted; None if neither was recorded."""
    type: Literal["knowledge_base"] = "knowledge_base"
    """Kind of the tool; a row without it was written before there were kinds."""


@dataclass(frozen=True, slots=True)
class Agent:
    agent_id: str
    organization_id: str
    name: str
    instructions: str
    model: str
    max_iterations: int | None
    tools: tuple[KnowledgeBaseTool, ...]
    version: int
    """Version that rises with each change."""
    created_at: datetime
    updated_at: datetime
    created_by: str
    updated_by: str
    auto_search: bool = False
    """True if its runs search with their question before the model speaks."""
    temperature: float | None = None
    """Temperature of the model; None: that of runs."""
    max_output_tokens: int | None = None
    """Limit of one answer in tokens; None: that of the deployment."""
    injection: str | None = None
    """Template and knowledge for its runs, as JSON text, because MongoDB does not take every field name; None: none."""


_TOOLS: Final = RowMapper(KnowledgeBaseTool)


def _tools(stored: Iterable[Row]) -> tuple[KnowledgeBaseTool, ...]:
    return tuple(map(_TOOLS.read, stored))


_ROWS: Final = RowMapper(Agent, names={"agent_id": "_id"}, convert={"tools": _tools})


async def insert(database: Database, agent: Agent, *, session: MongoSession | None = None) -> None:
    await database[NAME].insert_one(_to_row(agent), session=session)


async def get(database: Database, key: AgentKey, *, session: MongoSession | None = None) -> Agent:
    """Return an agent. Raises NotFound."""
    return _found(await database[NAME].find_one(_key(key), session=session))


async def find_page(database: Database, organization_id: str, *, skip: int, limit: int) -> tuple[list[Agent], int]:
    """Return a page of agents, newest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def change(
    database: Database,
    session: MongoSession,
    key: AgentKey,
    *,
    fields: Mapping[str, Any],
    by: str,
    versions: Collection[int] | None = None,
) -> Agent | None:
    """Change fields other than the tools; None if the agent was deleted, or has none of `versions`."""
    row = await database[NAME].find_one_and_update(
        {**_key(key), **match_version(versions)},
        _update(fields, by),
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return _ROWS.read(row) if row else None


async def set_tools(
    database: Database,
    agent: Agent,
    tools: Sequence[KnowledgeBaseTool],
    *,
    by: str,
    session: MongoSession | None = None,
) -> Agent | None:
    """Replace the tools of an agent; None if it was changed or deleted since it was read."""
    row = await database[NAME].find_one_and_update(
        {**_key(AgentKey(agent.organization_id, agent.agent_id)), "version": agent.version},
        _update({"tools": [asdict(tool) for tool in tools]}, by),
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return _ROWS.read(row) if row else None


async def store_name_of_knowledge_base(
    database: Database, session: MongoSession, key: KnowledgeBaseKey, *, name: str
) -> None:
    """Store the last name of a KB in the tools that search it, because its own row is deleted."""
    await database[NAME].update_many(
        {"organization_id": key.organization_id, "tools.kb_id": key.kb_id},
        # The new version makes a concurrent change of the tools read them again.
        {"$set": {"tools.$[tool].kb_name": name}, "$inc": {"version": 1}},
        array_filters=[{"tool.kb_id": key.kb_id}],
        session=session,
    )


async def delete(database: Database, session: MongoSession, key: AgentKey) -> None:
    """Delete an agent. Raises NotFound."""
    deleted = await database[NAME].delete_one(_key(key), session=session)
    if not deleted.deleted_count:
        raise NotFound("agent")


def _update(fields: Mapping[str, Any], by: str) -> Row:
    return {"$set": {**fields, "updated_at": datetime.now(UTC), "updated_by": by}, "$inc": {"version": 1}}


def _key(key: AgentKey) -> Row:
    return {"_id": key.agent_id, "organization_id": key.organization_id}


_PLAIN = (
    "organization_id",
    "name",
    "instructions",
    "model",
    "max_iterations",
    "auto_search",
    "temperature",
    "max_output_tokens",
    "injection",
    "version",
    "created_at",
    "updated_at",
    "created_by",
    "updated_by",
)


def _to_row(agent: Agent) -> Row:
    row: Row = {name: getattr(agent, name) for name in _PLAIN}
    return row | {"_id": agent.agent_id, "tools": [asdict(tool) for tool in agent.tools]}


def _found(row: Row | None) -> Agent:
    if row is None:
        raise NotFound("agent")
    return _ROWS.read(row)
