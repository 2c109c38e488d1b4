"""Loads the document of an import into stores."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from kb_client.knowledge.stores import GraphStore, KnowledgeStores, MetadataStore, MissingNode, PieceStore
from kb_client.marked_text import decode_marked
from kb_contracts.knowledge.import_document import ImportItem, SkippedItem, read_import

M = TypeVar("M", bound=BaseModel)


class SkippedKnowledge(UserWarning):
    """Warning about an item of a document that was not loaded."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Numbers of loaded items, and what was skipped."""

    loaded: dict[str, int] = field(default_factory=dict)
    """Number of items for each of `metadata`, `pieces`, `graph.nodes` and `graph.edges`."""
    skipped: list[SkippedItem] = field(default_factory=list)


class KnowledgeDataLoader:
    """Loads documents with `metadata`, `pieces` and `graph`. A bad item is skipped with a warning.

    The document is that of `POST /knowledge:import`. Loading it again changes nothing.
    """

    def __init__(self, metadata_store: MetadataStore, piece_store: PieceStore, graph_store: GraphStore) -> None:
        self._stores = KnowledgeStores(metadata_store, piece_store, graph_store)

    def load_file(self, path: Path | str) -> LoadReport:
        """Load a file with a document in JSON.

        Raises:
            ValueError: it is no JSON, or no object.
        """
        document = json.loads(decode_marked(Path(path).read_bytes()))
        if not isinstance(document, dict):
            raise ValueError("the file must contain an object with metadata, pieces and graph")  # noqa: TRY004  # the content is wrong, not a type in code
        return self.load(document)

    def load(self, document: Mapping[str, Any]) -> LoadReport:
        """Load a document, and return what was loaded and what was skipped."""
        read = read_import(document)
        report = LoadReport(skipped=list(read.skipped))
        self._put_all("metadata", read.entities, put=self._stores.metadata_store.put, report=report)
        self._put_all("pieces", read.pieces, put=self._stores.piece_store.put, report=report)
        self._put_all("graph.nodes", read.nodes, put=self._stores.graph_store.put_node, report=report)
        self._put_all("graph.edges", read.edges, put=self._stores.graph_store.put_edge, report=report)
        for skipped in report.skipped:
            warnings.warn(_in_words(skipped), SkippedKnowledge, stacklevel=2)
        return report

    @staticmethod
    def _put_all(section: str, items: Iterable[ImportItem[M]], *, put: Callable[[M], None], report: LoadReport) -> None:
        loaded = 0
        for item in items:
            try:
                put(item.value)
                loaded += 1
            except MissingNode as error:
                report.skipped.append(item.skipped(str(error)))
        report.loaded[section] = loaded


def _in_words(skipped: SkippedItem) -> str:
    place = skipped.section if skipped.index is None else f"{skipped.section}[{skipped.index}]"
    return f"{place} was skipped: {skipped.reason}"
