"""Reads a source that is one uploaded file."""

from collections.abc import Awaitable, Callable

from kb_knowledge.sources.frontier import Frontier, FrontierItem
from kb_knowledge.sources.parse_item import ItemParser, ItemUnreadable
from kb_knowledge.sources.read_items import ReadItem, SourceUnusable
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.source_items import ItemOutcome, SourceItem


class UploadedFile:
    """Reads the item of one run."""

    def __init__(
        self,
        filename: str,
        load: Callable[[], Awaitable[bytes | None]],
        *,
        parser: ItemParser,
        frontier: Frontier,
        recorder: ItemRecorder,
    ) -> None:
        """Construct it.

        Args:
            filename: name of the file, which is the key of its entry: a new version of the file updates it.
            load: returns its contents; None if it does not exist any more.
            parser: reads it.
            frontier: of the run.
            recorder: stores its text.
        """
        self._filename = filename
        self._load = load
        self._parser = parser
        self._frontier = frontier
        self._recorder = recorder

    async def begin(self) -> None:
        await self._frontier.add([FrontierItem(self._filename)])

    async def read(self, item: FrontierItem) -> ReadItem:
        content = await self._load()
        if content is None:
            raise SourceUnusable("the file does not exist any more; upload it and change the file_id of the source")
        known = await self._recorder.known_items.find(item.address)
        try:
            parsed = await self._parser.parse_file(content, filename=self._filename)
        except ItemUnreadable as unreadable:
            return ReadItem(ItemOutcome.FAILED, key=item.address, message=str(unreadable), bytes_read=len(content))
        if not parsed.text.strip():
            return ReadItem(
                ItemOutcome.FAILED, key=item.address, message="it has no text; leave it out", bytes_read=len(content)
            )
        recorded = await self._recorder.record(SourceItem(item.address, parsed.document_name, parsed.text), known=known)
        return ReadItem(recorded.outcome, key=item.address, message=recorded.problem, bytes_read=len(content))
