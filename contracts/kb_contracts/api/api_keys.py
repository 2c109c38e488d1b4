"""API keys of an organization."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import Name, ObjectId, StrictModel, Timestamp, example

KeyScope = Literal["read", "search", "write", "admin"]


_API_KEY: Final = {
    "key_id": "3f9c1d2e4b5a6978",
    "name": "ingest",
    "scopes": ["read", "write"],
    "kb_ids": None,
    "created_at": "2026-01-31T12:00:00Z",
    "expires_at": None,
    "revoked_at": None,
    "hashed_at": "2026-01-31T12:00:00Z",
    "last_used_at": "2026-01-31T12:00:05Z",
}


class CreateApiKey(StrictModel):
    model_config = example({"name": "ingest", "scopes": ["read", "write"]})

    name: Name
    scopes: Annotated[list[KeyScope], Field(min_length=1, max_length=4)] = Field(
        description="Permissions of the key. `admin` includes all others."
    )
    expires_at: Timestamp | None = Field(
        default=None, description="Time from which the key is refused; null: it does not expire."
    )
    kb_ids: Annotated[list[ObjectId], Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="Knowledge bases to which the key is limited; others are 404 for it, and calls about the whole "
        "organization are 403 `key-limited`. Not with the scope `admin`. null: all.",
    )


class ApiKeyView(BaseModel):
    model_config = example(_API_KEY)

    key_id: str = Field(description="Public part of the key, between `kb_` and the secret.")
    name: str
    scopes: list[KeyScope]
    kb_ids: list[str] | None = Field(description="Knowledge bases to which the key is limited; null: all.")
    created_at: datetime
    expires_at: datetime | None = Field(description="Time from which the key is refused; null: it does not expire.")
    revoked_at: datetime | None = Field(description="Time at which the key was revoked; null if it is not.")
    hashed_at: datetime = Field(
        description="Time at which the stored hash was made. If the pepper was replaced later, the key still needs the "
        "former pepper."
    )
    last_used_at: datetime | None = Field(
        description="Time of the last request with the key, accurate to a minute; null if there was none."
    )


class CreatedApiKey(ApiKeyView):
    model_config = example({**_API_KEY, "api_key": "kb_3f9c1d2e4b5a6978_..."})

    api_key: str = Field(description="The whole key, which is shown only in this response.")


class ApiKeyList(BaseModel):
    model_config = example({"api_keys": [_API_KEY], "total_count": 1})

    api_keys: list[ApiKeyView]
    total_count: int = Field(description="Number of items on all pages.")
