"""A search index as clients know it: a name on a collection, with a definition that may be replaced while it serves."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bson import ObjectId

from kb_local.search_node.change_feed import Namespace
from kb_local.search_node.definitions import type_of
from kb_local.search_node.generation import DefinitionVersion, Generation, GenerationState
from kb_local.search_node.refresh import RowChange

HOST_NAME = "localhost"


class PublishedStatus(NamedTuple):
    """Status of an index as lists show it."""

    version: int
    status: str
    queryable: bool


@dataclass(slots=True, eq=False)
class SearchIndex:
    """`main` answers queries; `staged` is being built and then takes its place. Both are among the `generations`."""

    id: ObjectId
    namespace: Namespace
    collection_id: bytes
    name: str
    latest: DefinitionVersion
    main: Generation | None = None
    staged: Generation | None = None
    generations: list[Generation] = field(default_factory=list)
    published: PublishedStatus | None = None
    """Status that was published last, where statuses are published with a delay."""

    def push_change(self, change: RowChange) -> None:
        for generation in self.generations:
            generation.push_change(change)

    def promote(self, generation: Generation) -> Generation | None:
        """Let a built generation answer from now on; return the one that did so far."""
        former = self.main
        self.main = generation
        if self.staged is generation:
            self.staged = None
        return None if former is generation else former

    @property
    def queryable(self) -> bool:
        # One that is recovering answers too, only later.
        return self.main is not None and self.main.state is not GenerationState.FAILED

    @property
    def status(self) -> str:
        """Return the status. During an update it is BUILDING, although the old definition can be queried."""
        if self.staged is None:
            return _status(self.main) if self.main is not None else GenerationState.PENDING
        if self.staged.state is GenerationState.FAILED or (
            self.staged.state is GenerationState.PENDING and self.main is None
        ):
            return self.staged.state
        # Also when it is built and about to answer.
        return GenerationState.BUILDING

    def publish(self) -> None:
        self.published = PublishedStatus(self.latest.number, self.status, self.queryable)

    def _last_published(self) -> PublishedStatus:
        known = self.published
        if known is None:
            return PublishedStatus(self.latest.number, GenerationState.PENDING, queryable=False)
        # That there is another definition is known at once.
        return known if known.version == self.latest.number else known._replace(status=GenerationState.BUILDING)

    def describe(self, *, is_delayed: bool = False) -> dict[str, Any]:
        """Return the entry of `$listSearchIndexes`.

        Args:
            is_delayed: True for the status that was published last.
        """
        if not is_delayed:
            self.publish()
        _, status, queryable = self._last_published()
        detail: dict[str, Any] = {"hostname": HOST_NAME, "status": status, "queryable": queryable}
        if self.main is not None:
            detail["mainIndex"] = _detail(self.main, queryable=self.queryable)
        if self.staged is not None:
            detail["mainIndex" if self.main is None else "stagedIndex"] = _detail(self.staged, queryable=False)
        return {
            "id": str(self.id),
            "name": self.name,
            "type": type_of(self.latest.definition),
            "status": status,
            "queryable": queryable,
            "latestDefinitionVersion": _version(self.latest),
            "latestDefinition": self.latest.definition.source,
            "statusDetail": [detail],
        }


def _status(generation: Generation) -> str:
    if generation.recovering and generation.state in (GenerationState.PENDING, GenerationState.BUILDING):
        return "STALE"
    return generation.state


def _version(version: DefinitionVersion) -> dict[str, Any]:
    return {"version": version.number, "createdAt": version.created_at}


def _detail(generation: Generation, *, queryable: bool) -> dict[str, Any]:
    detail = {
        "status": _status(generation),
        "queryable": queryable,
        "definitionVersion": _version(generation.version),
        "definition": generation.version.definition.source,
    }
    return detail if generation.message is None else detail | {"message": generation.message}
