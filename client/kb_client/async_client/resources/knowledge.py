from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.check_ins import CheckInView
from kb_contracts.api.knowledge_imports import ImportReport

IMPORT_WITHIN_S: Final = 300.0


class AsyncKnowledge(AsyncResource):
    """Curated knowledge of the organization as a whole."""

    @operation
    def import_document(
        self,
        *,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        pieces: Sequence[Any] | Unset | None = UNSET,
        graph: Mapping[str, Any] | Unset | None = UNSET,
        dry_run: bool | None = None,
    ) -> ApiCall[ImportReport]:
        """Store entities, pieces and a graph. Invalid items are skipped, each with a reason.

        Args:
            metadata: entities by their ids, each with `entity_type` and `properties`.
            pieces: pieces, each with `content` and `knowledge_type`.
            graph: lists `nodes` and `edges`.
            dry_run: only say what would happen.
        """
        return ApiCall(
            "POST",
            "/knowledge:import",
            ImportReport,
            query={"dry_run": dry_run},
            body=without_unset({"metadata": metadata, "pieces": pieces, "graph": graph}),
            within_s=IMPORT_WITHIN_S,
        )

    @operation
    def structure(
        self,
        *,
        text: str,
        model: str | Unset | None = UNSET,
        max_retries: int | Unset = UNSET,
        apply: bool | Unset = UNSET,
    ) -> ApiCall[CheckInView]:
        """Let a chat model propose entities, pieces and a graph from a text.

        Args:
            text: notes as people write them.
            model: name of an allowed chat model; by default that of the deployment.
            max_retries: how often the model is told what is wrong with its answer.
            apply: import the proposal at once.
        """
        return ApiCall(
            "POST",
            "/knowledge:structure",
            CheckInView,
            body=without_unset({"text": text, "model": model, "max_retries": max_retries, "apply": apply}),
            within_s=IMPORT_WITHIN_S,
        )
