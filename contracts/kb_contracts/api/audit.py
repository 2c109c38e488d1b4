"""The audit log of an organization."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import example


class AuditEntryView(BaseModel):
    entry_id: str
    at: datetime = Field(description="Time of the call.")
    key_id: str = Field(description="Id of the API key that made the call.", examples=["91f3c02a77de1b04"])
    operation: str = Field(description="Name of the call.", examples=["api_keys.create"])
    target: dict[str, str] = Field(
        description="Ids in the path of the call, by name.", examples=[{"kb_id": "65f000000000000000000000"}]
    )
    outcome: Literal["succeeded", "refused", "failed"] = Field(
        description="`succeeded`: the change, if there was one to make, is in effect. `refused`: 4xx. `failed`: 5xx; "
        "whether the change is in effect may be unknown."
    )
    status: int = Field(description="HTTP status of the answer.")
    reason: str | None = Field(
        description="Why the caller had something done that is refused otherwise, in its words, such as storing a text "
        "that looks as if it contained a credential; null: nothing was."
    )
    request_id: str = Field(description="Id of the request, as in the header `X-Request-Id` and in the logs.")


class AuditEntryList(BaseModel):
    model_config = example(
        {
            "entries": [
                {
                    "entry_id": "65f1c2a3b4d5e6f708192a51",
                    "at": "2026-01-31T12:00:00Z",
                    "key_id": "91f3c02a77de1b04",
                    "operation": "knowledge_bases.pause",
                    "target": {"kb_id": "65f1c2a3b4d5e6f708192a3b"},
                    "outcome": "succeeded",
                    "status": 200,
                    "reason": None,
                    "request_id": "0b6f3d1c9e2a4f58",
                }
            ],
            "next_cursor": None,
        }
    )

    entries: list[AuditEntryView] = Field(description="Entries, newest first.")
    next_cursor: str | None = Field(description="`cursor` of the next page; null after the last page.")
