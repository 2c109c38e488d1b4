"""Reads a source that is one uploaded file."""

from collections.abc import Awaitable, Callable
from pathlib import Path

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
        save: Callable[[Path], Awaitable[int | None]],
        *,
        parser: ItemParser,
        frontier: Frontier,
        recorder: ItemRecorder,
    ) -> None:
        """Construct it.

        Args:
            filename: name of the file, which is the key of its entry: a new version of the file updates it.
            save: writes its contents to a path and returns their size; None if it does not exist any more.
            parser: reads it.
            frontier: of the run.
            recorder: stores its text.
        """
        self._filename = filename
        self._save = save
        self._size_bytes = 0
        self._parser = parser
        self._frontier = frontier
        self._recorder = recorder

    async def begin(self) -> None:
        await self._frontier.add([FrontierItem(self._filename)])

    async def read(self, item: FrontierItem) -> ReadItem:
        known = await self._recorder.known_items.find(item.address)
        try:
            parsed = await self._parser.parse_file(self._save_existing, filename=self._filename)
        except ItemUnreadable as unreadable:
            return self._result(item, ItemOutcome.FAILED, str(unreadable))
        if not parsed.text.strip():
            return self._result(item, ItemOutcome.FAILED, "it has no text; leave it out")
        recorded = await self._recorder.record(
            SourceItem(item.address, parsed.document_name, parsed.text), known=known, warnings=parsed.warnings
        )
        return self._result(item, recorded.outcome, recorded.problem, warnings=parsed.warnings)

    async def _save_existing(self, path: Path) -> None:
        size_bytes = await self._save(path)
        if size_bytes is None:
            raise SourceUnusable("the file does not exist any more; upload it and change the file_id of the source")
        self._size_bytes = size_bytes

    def _result(
        self, item: FrontierItem, outcome: ItemOutcome, message: str | None, *, warnings: tuple[str, ...] = ()
    ) -> ReadItem:
        return ReadItem(outcome, key=item.address, message=message, bytes_read=self._size_bytes, warnings=warnings)
