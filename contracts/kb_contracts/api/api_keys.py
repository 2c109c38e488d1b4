"""API keys of an organization."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import Name, StrictModel, Timestamp

KeyScope = Literal["read", "search", "write", "admin"]


class CreateApiKey(StrictModel):
    name: Name
    scopes: Annotated[list[KeyScope], Field(min_length=1, max_length=4)] = Field(
        description="Permissions of the key. `admin` includes all others."
    )
    expires_at: Timestamp | None = Field(
        default=None, description="Time from which the key is refused; null: it does not expire."
    )


class ApiKeyView(BaseModel):
    key_id: str = Field(description="Public part of the key, between `kb_` and the secret.")
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    expires_at: datetime | None = Field(description="Time from which the key is refused; null: it does not expire.")
    revoked_at: datetime | None = Field(description="Time at which the key was revoked; null if it is not.")
    hashed_at: datetime = Field(
        description="Time at which the stored hash was made. If the pepper was replaced later, the key still needs the "
        "former pepper."
    )


class CreatedApiKey(ApiKeyView):
    api_key: str = Field(description="The whole key, which is shown only in this response.")


class ApiKeyList(BaseModel):
    api_keys: list[ApiKeyView]
    total_count: int = Field(description="Number of items on all pages.")
