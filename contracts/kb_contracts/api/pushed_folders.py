"""Pushed folders: which folder, on which machine, the documents with a common beginning of their ids come from."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, Field

from kb_contracts.api.model import StrictModel, example
from kb_contracts.text_rules import storable

_PLACE: Final = {"host": "laptop", "path": "/home/ada/handbook", "is_named": False}

_IS_NAMED: Final = "Whether a person has named it, so that it is the same one wherever it is, as in a checkout of a CI."


class PutPushedFolder(StrictModel):
    """The place of a pushed folder."""

    model_config = example({**_PLACE, "replaces": None})

    host: Annotated[str, Field(max_length=255), AfterValidator(storable)] = Field(description="Name of the machine.")
    path: Annotated[str, Field(max_length=4096), AfterValidator(storable)] = Field(
        description="Absolute path of the folder on that machine."
    )
    is_named: bool = Field(default=False, description=_IS_NAMED)
    replaces: int | None = Field(
        default=None, description="`version` of the place that may be replaced; null if there must be none yet."
    )


class PushedFolderView(BaseModel):
    model_config = example(
        {"name": "handbook", **_PLACE, "first_pushed_at": "2026-01-31T12:00:00Z", "version": 1},
    )

    name: str = Field(description="What the ids of its documents begin with, before the first dot.")
    host: str = Field(description="Name of the machine.")
    path: str = Field(description="Absolute path of the folder on that machine.")
    is_named: bool = Field(description=_IS_NAMED)
    first_pushed_at: datetime = Field(description="Time of the first push under this name.")
    version: int = Field(description="Number that rises with each change of the place.")
