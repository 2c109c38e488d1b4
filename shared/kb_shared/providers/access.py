"""The key and the address that a provider is called with."""

from dataclasses import dataclass, field
from typing import Final

OPENAI_COMPATIBLE: Final = "hosted_vllm/"
"""Route of the models of OpenAI and of servers that speak its API."""


@dataclass(frozen=True, slots=True)
class Access:
    """An organization's own way to a provider, in the place of the environment's."""

    api_key: str = field(repr=False)
    api_base: str | None = None
    """Address of the provider; None means its usual one."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
