"""Goes on after a push: follows the folders, and pushes what changes, until Ctrl-C."""

import asyncio
import sys
import time
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from kb_client.command_line.output import visible
from kb_client.command_line.push.request import PushRequest
from kb_client.command_line.push.stored_documents import read_documents
from kb_client.files.file_problem import FileProblem
from kb_client.files.ignore_rules import UnusableIgnoreRules
from kb_client.files.push_plan import PushedDocument, PushPlan, plan_push
from kb_client.files.source_digest import digest_file
from kb_client.files.watch import FileChanges, FolderWatch

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_client.command_line.push.send import Sender
    from kb_client.files.find_files import FoundFiles
    from kb_client.files.found_file import FoundFile

_SEARCH_EVERY_S: Final = 1.0


class Obstacles:
    """Says once why changes are not followed now, and when they are again."""

    def __init__(self) -> None:
        self._said: str | None = None

    def tell(self, reasons: Iterable[str]) -> bool:
        """Return whether there is an obstacle."""
        now = "; ".join(reasons) or None
        if now != self._said:
            self._said = now
            again = "watching again" if now is None else f"not watching: {now}. No document is changed or deleted"
            print(visible(again), file=sys.stderr, flush=True)
        return now is not None


async def follow_folders(
    client: "AsyncClient", sender: "Sender", *, request: PushRequest, pushed: "FoundFiles", tag_ids: Collection[str]
) -> None:
    """Push what changes until Ctrl-C."""
    if not request.as_json:
        print("watching; Ctrl-C ends it", flush=True)
    watch, obstacles = FolderWatch(pushed.files), Obstacles()
    sources = {each.source for each in pushed.files}
    while True:
        await asyncio.sleep(_SEARCH_EVERY_S)
        try:
            found = await asyncio.to_thread(request.find_files)
        except UnusableIgnoreRules as error:
            obstacles.tell([str(error)])
            continue
        if obstacles.tell(find_obstacles(found, sources=sources, request=request)):
            continue
        sources |= {each.source for each in found.files}
        changes = watch.observe(found.files, now_s=time.monotonic())
        if changes:
            plan, stored = await plan_changes(client, changes, tag_ids=tag_ids, prune=request.prune)
            await sender.carry_out(plan, {each.document_id: each for each in changes.changed}, stored=stored)


def find_obstacles(found: "FoundFiles", *, sources: AbstractSet[str], request: PushRequest) -> list[str]:
    """Return why what is found must not be taken for what is there.

    Args:
        found: what was found now.
        sources: folders that have had files.
        request: arguments of the command.
    """
    emptied = sorted(sources - {each.source for each in found.files}) if request.prune and not request.yes else []
    return [str(each) for each in found.problems] + [
        f"{each} has no file any more, as if its disk were missing (--yes deletes its documents)" for each in emptied
    ]


async def plan_changes(
    client: "AsyncClient", changes: FileChanges, *, tag_ids: Collection[str], prune: bool
) -> tuple[PushPlan, dict[str, PushedDocument]]:
    """Plan what changed files need, and return it with their documents.

    Others may have tagged the documents since the last push.
    """
    files: dict[str, FoundFile] = {each.document_id: each for each in changes.changed}
    digests: dict[str, str] = {}
    for document_id, file in files.items():
        digest = await asyncio.to_thread(digest_file, file)
        # A file that can't be read any more will have changed again.
        if not isinstance(digest, FileProblem):
            digests[document_id] = digest
    gone = changes.gone if prune else frozenset()
    stored = await read_documents(client, [*digests, *gone])
    return plan_push(stored.values(), digests, tag_ids=tag_ids, gone=gone), stored
