"""Usage of an organization: SPUs and their cost."""

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

ChargedOperation = Literal["index", "search", "chat"]


class UsageRow(BaseModel):
    """Usage of one group.

    Dimensions by which it is not grouped are absent. `kb_id` is null for charges without a knowledge base.
    """

    kb_id: str | None = None
    kb_name: str | None = Field(
        default=None, description="Name of the knowledge base now; null if it was deleted. Present with `kb_id`."
    )
    model: str | None = None
    operation: ChargedOperation | None = Field(
        default=None, description="Purpose: `index`, `search`, or `chat` for calls of chat models."
    )
    day: date | None = Field(default=None, description="Day in UTC.")
    spus: int = Field(description="Number of SPUs: embeddings that were generated and stored.")
    usd: float = Field(
        description="Cost in US dollars, by the prices at the time of each charge. A call of a model whose price was "
        "not known then counts as 0."
    )
    nano_usd: int = Field(description="The same cost, exact: billionths of a US dollar.")


class Usage(BaseModel):
    model_config = example(
        {
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-31T12:00:00Z",
            "usage": [
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "kb_name": "Handbook",
                    "spus": 1250,
                    "usd": 0.0131,
                    "nano_usd": 13_100_000,
                }
            ],
            "total_spus": 1250,
            "total_usd": 0.0131,
            "total_nano_usd": 13_100_000,
        }
    )

    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    usage: list[UsageRow] = Field(description="Charges of each group.")
    total_spus: int = Field(description="Sum over all groups.")
    total_usd: float = Field(description="Sum over all groups, in US dollars.")
    total_nano_usd: int = Field(description="The same sum, exact: billionths of a US dollar.")
