"""Decides what becomes of the entries of pages that redirect now: to the page that they have become, or to a login."""

from dataclasses import dataclass

from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.store.crawl_frontier import StoredFrontier


@dataclass(frozen=True, slots=True)
class RedirectedPages:
    moved: frozenset[str] = frozenset()
    """Keys of pages whose texts the run has found under other keys."""
    elsewhere: tuple[str, ...] = ()
    """Keys of pages whose texts it has not found."""

    @property
    def problem(self) -> str | None:
        """Return why not all of the source was read, in words."""
        if not self.elsewhere:
            return None
        return (
            f"{len(self.elsewhere)} pages redirect to pages with other texts, such as {self.elsewhere[0]}; their "
            "entries stay as they were. Delete an entry if its page is gone"
        )


async def find_redirected_pages(frontier: StoredFrontier, recorder: ItemRecorder) -> RedirectedPages:
    """Return the known pages that redirect in this run. One whose entry was deleted is forgotten."""
    texts = await recorder.known_items.find_text_states()
    seen = await frontier.find_seen_keys()
    redirected = sorted((texts.keys() & await frontier.find_redirected()) - seen)
    texts_seen = {texts[key] for key in seen & texts.keys()}
    moved = {key for key in redirected if texts[key] in texts_seen}
    elsewhere: list[str] = []
    for key in redirected:
        known = None if key in moved else await recorder.known_items.find(key)
        if known is not None and await recorder.entries.exists(known.entry_id):
            elsewhere.append(key)
        elif known is not None:
            await recorder.known_items.delete(key)
    return RedirectedPages(frozenset(moved), tuple(elsewhere))
