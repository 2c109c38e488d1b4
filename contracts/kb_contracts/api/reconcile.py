"""Passes and plans of the reconciler."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

MAX_EXAMPLES: Final = 10

ShownPlanState = Literal["requested", "running", "planned", "stopped", "approved", "done", "failed"]
KindCounts = Annotated[Mapping[str, int], Field(description="Number of documents by kind of drift.")]


_PLAN: Final[dict[str, Any]] = {
    "plan_id": "65f1c2a3b4d5e6f708192a3d",
    "kb_id": "65f1c2a3b4d5e6f708192a3b",
    "document_id": None,
    "dry_run": True,
    "state": "planned",
    "found": {"missing": 1},
    "repaired": {},
    "slices": 1,
    "compared": 1,
    "skipped": [],
    "requested_by": "3f9c1d2e4b5a6978",
    "approved_by": None,
    "created_at": "2026-01-31T12:00:00Z",
    "finished_at": "2026-01-31T12:00:05Z",
    "error": None,
}
_NO_DRIFT: Final = {"count": 0, "examples": []}


class PlanView(BaseModel):
    model_config = example(_PLAN)

    plan_id: str
    kb_id: str | None = Field(description="Id of the knowledge base; null for all of the organization.")
    document_id: str | None = Field(description="Id of the document; null for all documents.")
    dry_run: bool = Field(description="Whether only a list of repairs was requested.")
    state: ShownPlanState = Field(
        description="`requested` and `approved` wait for the reconciler, `running` is being executed. `planned` and"
        " `stopped` wait for `apply`: a dry run, or a plan that would remove too many documents. `done` and `failed`"
        " are over."
    )
    found: KindCounts
    repaired: KindCounts
    slices: int = Field(description="Expected number of slices of up to 1,000 documents; 0 before it begins.")
    compared: int = Field(description="Number of slices that were compared so far.")
    skipped: list[str] = Field(description="Knowledge bases that were not compared, because they are not active.")
    requested_by: str | None = Field(description="Id of the API key; null if a scheduled pass stopped.")
    approved_by: str | None = Field(description="Id of the API key that applied the plan; null before that.")
    created_at: datetime
    finished_at: datetime | None = Field(description="Time at which the reconciler was done; null before that.")
    error: str | None = Field(description="Type of the error if the plan failed.")


class DriftedDocuments(BaseModel):
    count: int = Field(description="Number of documents.")
    examples: list[str] = Field(description=f"Ids of up to {MAX_EXAMPLES} of them, if the plan lists repairs.")


class RepairView(BaseModel):
    kb_id: str
    kind: str = Field(description="Kind of drift. docs/reference/drift.md describes the kinds.")
    document_id: str | None = Field(description="Id of the document; null if the knowledge base as a whole has drift.")
    problem: str = Field(description="Description of what is wrong.")
    repair: str = Field(description="Description of what repairs it.")


class PlanWithRepairs(PlanView):
    model_config = example(
        {
            **_PLAN,
            "missing_documents": {"count": 1, "examples": ["handbook"]},
            "stale_documents": _NO_DRIFT,
            "orphaned_vectors": _NO_DRIFT,
            "missing_embeddings": _NO_DRIFT,
            "repairs": [
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "kind": "missing",
                    "document_id": "handbook",
                    "problem": "a document has a tag of the KB, but no row in `document_index` and no job",
                    "repair": "command to the indexer",
                }
            ],
            "total_count": 1,
        }
    )

    missing_documents: DriftedDocuments = Field(description="Documents that should be indexed and are not.")
    stale_documents: DriftedDocuments = Field(
        description="Documents that are indexed although they were deleted or have no tag of the knowledge base."
    )
    orphaned_vectors: DriftedDocuments = Field(description="Documents that are not indexed and have chunks.")
    missing_embeddings: DriftedDocuments = Field(
        description="Documents with chunks whose vectors are not in the embedding cache."
    )
    repairs: list[RepairView] = Field(
        description="Page of the repairs that wait for `apply`, by knowledge base, kind and document."
    )
    total_count: int = Field(description="Number of repairs on all pages.")


class PlanList(BaseModel):
    model_config = example({"plans": [_PLAN], "total_count": 1})

    plans: list[PlanView]
    total_count: int = Field(description="Number of items on all pages.")


class PassView(BaseModel):
    kind: Literal["full", "incremental"] = Field(description="Kind of pass.")
    started_at: datetime
    finished_at: datetime
    knowledge_bases: int = Field(description="Number of knowledge bases of the organization that were compared.")
    found: KindCounts
    repaired: KindCounts
    stopped: Mapping[str, int] = Field(
        description="Number of documents by kind that were not removed, because they were too many. A plan lists them."
    )


class PassList(BaseModel):
    model_config = example(
        {
            "passes": [
                {
                    "kind": "full",
                    "started_at": "2026-01-31T12:00:00Z",
                    "finished_at": "2026-01-31T12:00:05Z",
                    "knowledge_bases": 3,
                    "found": {"missing": 1},
                    "repaired": {"missing": 1},
                    "stopped": {},
                }
            ],
            "total_count": 1,
        }
    )

    passes: list[PassView]
    total_count: int = Field(description="Number of items on all pages.")
