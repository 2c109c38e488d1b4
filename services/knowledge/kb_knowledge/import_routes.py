from typing import Annotated, Final

from fastapi import Query

from kb_contracts.api.knowledge_imports import ImportKnowledge, ImportReport
from kb_knowledge.dependencies import KnowledgeImporter, LargeBodies, Writer
from kb_knowledge.import_knowledge import IN_PARTS, MAX_IMPORT_BYTES
from kb_shared.http.admission import long_running
from kb_shared.http.body_limits import BodyLimits, with_body_limits
from kb_shared.http.routing import organization_router

BODY: Final = BodyLimits(
    max_bytes=MAX_IMPORT_BYTES,
    max_values=1_000_000,
    advice=f" {IN_PARTS}",
    malformed_is_unprocessable=True,
)

router = organization_router("knowledge")


@router.post("/knowledge:import", operation_id="knowledge.import_document", summary="Import knowledge")
@with_body_limits(BODY)
@long_running
async def import_document(
    importer: KnowledgeImporter,
    bodies: LargeBodies,
    caller: Writer,
    *,
    body: ImportKnowledge,
    dry_run: Annotated[bool, Query(description="Only say what would happen.")] = False,
) -> ImportReport:
    """Store entities, pieces and a graph of up to 10,000 items and 20 MB. A longer document is refused (413).

    An invalid item is skipped with the reason, and everything else is stored. What is stored already as it is in the
    document does not change, so the same document can be imported again.
    """
    return await importer.import_document(caller, body.model_dump(), dry_run=dry_run, thread=bodies.thread)
