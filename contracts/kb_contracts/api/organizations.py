"""Settings and deletion of an organization."""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import StrictModel, example

_STRICT_METADATA: Final = (
    "Whether metadata that can't be stored refuse their document, on Kafka and over HTTP. If not, such values are left "
    "out, and the document gets a warning."
)


class PutOrganizationSettings(StrictModel):
    model_config = example({"strict_metadata": True})

    strict_metadata: bool = Field(description=_STRICT_METADATA)


class OrganizationSettingsView(BaseModel):
    """Settings that the organization changes itself."""

    model_config = example({"strict_metadata": False})

    strict_metadata: bool = Field(description=_STRICT_METADATA)


class OrganizationDeletionView(BaseModel):
    model_config = example(
        {
            "organization_id": "acme",
            "state": "running",
            "step": "rows",
            "requested_at": "2026-01-31T12:00:00Z",
            "requested_by": "3f9c1d2e4b5a6978",
            "deleted": {"knowledge_bases": 3, "documents": 1240},
            "finished_at": None,
        }
    )

    organization_id: str
    state: Literal["running", "done"]
    step: str = Field(
        description="Step of the deletion: `requested`, `knowledge_bases` while they are being deleted, `messages` "
        "while messages about them wait for Kafka, `rows`, `done`."
    )
    requested_at: datetime
    requested_by: str = Field(description="Id of the API key that requested it. It is deleted last.")
    deleted: dict[str, int] = Field(description="Number of deleted rows so far, by collection.")
    finished_at: datetime | None = Field(description="Time of the end; null before.")
