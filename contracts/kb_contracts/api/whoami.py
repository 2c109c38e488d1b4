"""Description of the API key of a request."""

from datetime import datetime

from pydantic import BaseModel, Field

from kb_contracts.api.api_keys import KeyScope
from kb_contracts.api.model import example


class RequestLimitView(BaseModel):
    """Requests a minute; 0 means no limit."""

    of_key: int
    of_organization: int


class WhoAmI(BaseModel):
    model_config = example(
        {
            "organization_id": "acme",
            "key_id": "3f9c1d2e4b5a6978",
            "name": "ingest",
            "scopes": ["read", "write"],
            "kb_ids": None,
            "expires_at": None,
            "limits": {"administration": {"of_key": 600, "of_organization": 3000}},
        }
    )

    organization_id: str
    key_id: str = Field(description="Public part of the API key, between `kb_` and the secret.")
    name: str = Field(description="Name of the API key.")
    scopes: list[KeyScope]
    kb_ids: list[str] | None = Field(description="Knowledge bases to which the key is limited; null: all.")
    expires_at: datetime | None = Field(description="Time from which the key is refused; null: it does not expire.")
    limits: dict[str, RequestLimitView] = Field(
        description="Limits by kind of request, such as `administration`.",
        examples=[{"administration": {"of_key": 600, "of_organization": 3000}}],
    )
