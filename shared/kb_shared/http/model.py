"""Query parameters of lists."""

from typing import Annotated

from fastapi import Query

DEFAULT_LIMIT = 10
Skip = Annotated[int, Query(ge=0, le=1_000_000_000, description="Number of items to skip. Default: 0.")]
Limit = Annotated[int, Query(ge=1, le=100, description=f"Number of items to return. Default: {DEFAULT_LIMIT}.")]
