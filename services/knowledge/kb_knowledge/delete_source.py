"""Deletes a source. Its entries stay, and belong to no source from then on."""

from kb_knowledge.remove_source_kinds import SourceKindRemover
from kb_knowledge.store import knowledge_sources, source_runs
from kb_knowledge.store.keys import SourceKey
from kb_knowledge.store.source_items import StoredItems
from kb_shared.errors import RequestError
from kb_shared.http.changes import commit_change
from kb_shared.mongo import knowledge_entries
from kb_shared.mongo.database import Database, MongoSession


async def delete_source(database: Database, key: SourceKey, *, source_kinds: SourceKindRemover) -> None:
    """Delete a source, its history and what is known of its items.

    Args:
        database: where it is.
        key: identifies it.
        source_kinds: removes its kind from its entries, soon after.

    Raises:
        NotFound: there is no such source.
        RequestError: 409 `source-running`.
    """

    async def store(session: MongoSession) -> None:
        await knowledge_sources.get(database, key, session=session)
        # A write, so that no run is requested at the same time.
        await knowledge_sources.delete(database, session, key)
        if await source_runs.is_open(database, key, session=session):
            raise source_running()
        await source_runs.delete_of_source(database, session, key)
        await StoredItems(database, key).delete_all(session)
        await knowledge_entries.unlink_source(database, session, key.organization_id, source_id=key.source_id)

    await commit_change(database, store)
    source_kinds.signal.wake()


def source_running() -> RequestError:
    return RequestError(
        409, "source-running", "The source has a run that has not ended: wait for its end or cancel it, and resend."
    )
