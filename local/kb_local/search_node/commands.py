"""The commands of Atlas search, answered from the catalogue or rewritten for mongod."""

import asyncio
from typing import Any

from bson import Int64

from kb_local.search_node.answers import Aborted, Answer, Forwarded, IndexAnswer, PassThrough
from kb_local.search_node.catalogue import Catalogue, IndexRequest, Selector
from kb_local.search_node.change_feed import Namespace
from kb_local.search_node.definitions import index_type, parse_definition
from kb_local.search_node.errors import CommandError, definition_error, not_in_transaction, search_error
from kb_local.search_node.hits import NO_HITS, Hits
from kb_local.search_node.pipeline import check_placement, rewrite_pipeline, search_stage_of
from kb_local.search_node.query import VectorQuery
from kb_local.search_node.text_index import TextAnswer, TextIndex
from kb_local.search_node.text_query import DEFAULT_INDEX_NAME, TextQuery
from kb_local.search_node.vector_index import VectorIndex

Command = dict[str, Any]

LONGEST_WAIT_S = 60.0
# What makes a command part of a transaction.
TRANSACTION_KEYS = ("lsid", "txnNumber", "startTransaction", "autocommit", "readConcern", "$clusterTime", "$db")


class SearchCommands:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def answer(self, command: Command) -> Answer:
        """Decide what becomes of an `aggregate` or a search index command."""
        try:
            return await self._answer_in_time(command)
        except CommandError as error:
            if _in_transaction(command):
                return Aborted(_failing_in_transaction(command), error)
            return IndexAnswer(error.as_reply())

    async def _answer_in_time(self, command: Command) -> Answer:
        limit_ms = command.get("maxTimeMS")
        try:
            async with asyncio.timeout(limit_ms / 1000 if limit_ms else LONGEST_WAIT_S):
                return await self._answer(command)
        except TimeoutError:
            raise CommandError(50, "MaxTimeMSExpired", "operation exceeded time limit") from None

    async def _answer(self, command: Command) -> Answer:
        name = next(iter(command))
        if name == "aggregate":
            return await self._aggregate(command)
        if _in_transaction(command):
            raise not_in_transaction(f"Command {name}")
        namespace = Namespace(command["$db"], str(command[name]))
        match name:
            case "createSearchIndexes":
                return await self._create(namespace, command)
            case "updateSearchIndex":
                selector = _one_index(command)
                of_type = await self._catalogue.type_of(namespace, selector)
                source = command.get("definition")
                definition = parse_definition(source, of_type=of_type, where="userCommand.definition")
                await self._catalogue.update(namespace, selector, definition=definition)
                return IndexAnswer({"ok": 1.0})
            case "dropSearchIndex":
                await self._catalogue.drop(namespace, _one_index(command))
                return IndexAnswer({"ok": 1.0})
        return PassThrough()

    async def _create(self, namespace: Namespace, command: Command) -> Answer:
        specifications = command.get("indexes")
        if not isinstance(specifications, list) or not specifications:
            raise definition_error('"userCommand.indexes" cannot be empty')
        requests = [_index_request(one, number) for number, one in enumerate(specifications)]
        indexes = await self._catalogue.create(namespace, requests)
        created = [{"id": str(index.id), "name": index.name} for index in indexes]
        return IndexAnswer({"indexesCreated": created, "ok": 1.0})

    async def _aggregate(self, command: Command) -> Answer:
        pipeline = command.get("pipeline")
        if not isinstance(pipeline, list) or not all(isinstance(stage, dict) for stage in pipeline):
            return PassThrough()
        stage = search_stage_of(pipeline)
        if stage is None:
            # The bytes named one, in a value: `$text` has a `$search` of its own.
            return PassThrough()
        check_placement(pipeline)
        if _in_transaction(command):
            raise not_in_transaction(f"Aggregation stage {stage}")
        namespace = Namespace(command["$db"], str(command["aggregate"]))
        if stage == "$listSearchIndexes":
            return await self._list(namespace, command)
        _check_read_concern(command, stage)
        rewritten = await rewrite_pipeline(pipeline, namespace, searches=CatalogueSearches(self._catalogue))
        # Stages that bring their documents with them run on the database.
        target = {"aggregate": 1} if "$documents" in rewritten[0] else {}
        return Forwarded(command | target | {"pipeline": rewritten})

    async def _list(self, namespace: Namespace, command: Command) -> Answer:
        first, *rest = command["pipeline"]
        entries = await self._catalogue.listing(namespace, _selector(first["$listSearchIndexes"]))
        if rest:
            documents = {"$documents": {"$literal": entries}}
            return Forwarded(command | {"aggregate": 1, "pipeline": [documents, *rest]})
        cursor = {"firstBatch": entries, "id": Int64(0), "ns": str(namespace)}
        return IndexAnswer({"cursor": cursor, "ok": 1.0})


class CatalogueSearches:
    """Searches the indexes of the catalogue. One that is not there finds nothing, and that is no error on Atlas."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def vector(self, namespace: Namespace, query: VectorQuery) -> Hits:
        match await self._catalogue.find(namespace, query.index):
            case VectorIndex() as index:
                return await index.search(query)
            case TextIndex():
                raise search_error(f'{query.path} must be indexed as "vector".')
        return NO_HITS

    async def text(self, namespace: Namespace, query: TextQuery, *, most: int | None) -> TextAnswer:
        match await self._catalogue.find(namespace, query.index):
            case TextIndex() as index:
                if most:
                    most += self._catalogue.deleted_but_indexed(namespace, query.index)
                return index.search(query, most=most)
            case VectorIndex():
                raise search_error(f"Cannot execute $search over vectorSearch index '{query.index}'")
        return TextAnswer(NO_HITS, 0, has_index=False)


def _index_request(specification: object, number: int) -> IndexRequest:
    where = f"userCommand.indexes[{number}]"
    if not isinstance(specification, dict):
        raise definition_error(f'"{where}" must be a document')
    of_type = index_type(specification.get("type", "search"), where=f"{where}.type")
    name = specification.get("name", DEFAULT_INDEX_NAME)
    if not isinstance(name, str) or not name:
        raise definition_error(f'"{where}.name" cannot be empty')
    if "definition" not in specification:
        raise definition_error(f'"{where}.definition" is required')
    definition = parse_definition(specification["definition"], of_type=of_type, where=f"{where}.definition")
    return IndexRequest(name, definition)


def _selector(source: object) -> Selector:
    source = source if isinstance(source, dict) else {}
    return Selector(name=source.get("name"), id=source.get("id"))


def _one_index(command: Command) -> Selector:
    selector = _selector(command)
    if (selector.name is None) == (selector.id is None):
        raise definition_error('"userCommand" exactly one of "name" and "id" is required')
    return selector


def _in_transaction(command: Command) -> bool:
    return command.get("autocommit") is False


def _failing_in_transaction(command: Command) -> Command:
    """Return a command of the same transaction that mongod refuses, whereupon it aborts the transaction."""
    collection = command[next(iter(command))]
    target = collection if isinstance(collection, str) else "none"
    membership = {key: command[key] for key in TRANSACTION_KEYS if key in command}
    return {"aggregate": target, "pipeline": [{"$indexStats": {}}], "cursor": {}, **membership}


def _check_read_concern(command: Command, stage: str) -> None:
    level = command.get("readConcern", {}).get("level", "local")
    if level != "local":
        raise CommandError(
            72,
            "InvalidOptions",
            f"Aggregation stage {stage} cannot run with a readConcern other than 'local'. Current readConcern: {level}",
        )
