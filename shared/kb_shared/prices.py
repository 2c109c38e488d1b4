"""Finds the prices of models: those that the deployment sets first, then those of LiteLLM's table.

Amounts are whole nano-dollars (a billionth of a US dollar), so that sums of many small charges are exact.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

NANO_USD: Final = 1_000_000_000
"""Number of nano-dollars in a US dollar."""
MAX_USD: Final = 1_000_000.0
"""Limit of a price."""
_MILLION: Final = 1_000_000


class ModelPrice(BaseModel):
    """Price of a model as the deployment sets it, in US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: float = Field(ge=0, le=MAX_USD, allow_inf_nan=False)
    """Price of input tokens; of an embedding model, of the texts."""
    completion: float = Field(default=0.0, ge=0, le=MAX_USD, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class EmbeddingPrice:
    """Price of one embedding: a fixed part and a part for each token of its text."""

    usd_per_embedding: float = 0.0
    usd_per_token: float = 0.0

    def nano_usd(self, tokens: int) -> int:
        """Return the price of the embedding of a text with `tokens` tokens, rounded up."""
        return nano_usd(self.usd_per_embedding + tokens * self.usd_per_token)


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices that a deployment sets itself."""

    usd_per_spu: float | None = None
    """Price of an embedding of any model without a price of its own in `by_model`."""
    by_model: Mapping[str, ModelPrice] = field(default_factory=dict)

    def of_embedding(self, model: str, *, listed_usd_per_token: float | None) -> EmbeddingPrice | None:
        """Return the price of an embedding of `model`; None if it is not known.

        `listed_usd_per_token` is LiteLLM's price, 0 for a model that this deployment runs itself.
        """
        if own := self.by_model.get(model):
            return EmbeddingPrice(usd_per_token=own.prompt / _MILLION)
        if self.usd_per_spu is not None:
            return EmbeddingPrice(usd_per_embedding=self.usd_per_spu)
        return None if listed_usd_per_token is None else EmbeddingPrice(usd_per_token=listed_usd_per_token)

    def of_chat(self, model: str, *, listed: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
        """Return the prices of a prompt token and of a completion token, in US dollars; None if they are not known."""
        if own := self.by_model.get(model):
            return own.prompt / _MILLION, own.completion / _MILLION
        return listed


def nano_usd(usd: float) -> int:
    """Convert dollars to nano-dollars, rounded up, so that spending is never counted too low."""
    # Binary fractions of an exact number of nano-dollars may lie a little above it.
    return math.ceil(round(usd * NANO_USD, 3))
