"""Sources of knowledge: web sites, files and MCP servers that entries are fetched from."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from kb_contracts.api.model import Name, ObjectId, StrictModel, example
from kb_contracts.reasons.field_reasons import wrong_field

SourceAddress = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
SourceKindName = Literal["url_crawl", "file_upload", "mcp"]
CronExpression = Annotated[str, StringConstraints(min_length=9, max_length=100)]
LastRunStatus = Literal["ok", "partial", "error"]
SourceFileName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f/\\]+$")]
"""Name without a folder."""

_CRAWL: Final = {"url": "https://example.com/handbook/", "depth": 1, "prefixes": ["/handbook/"]}
_SOURCE: Final = {
    "source_id": "65f1c2a3b4d5e6f708192a71",
    "label": "Handbook",
    "kind": "url_crawl",
    "config": _CRAWL,
    "cron_expression": "0 6 * * MON-FRI",
    "enabled": True,
    "next_run_at": "2026-02-02T06:01:12Z",
    "next_run_times": ["2026-02-02T06:01:12Z", "2026-02-03T06:01:12Z", "2026-02-04T06:01:12Z"],
    "last_run_at": "2026-01-30T06:02:40Z",
    "last_run_status": "ok",
    "last_run_error": None,
    "last_run_entry_count": 42,
    "created_at": "2026-01-29T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_at": "2026-01-29T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
}
_RUN: Final = {
    "run_id": "65f1c2a3b4d5e6f708192a72",
    "source_id": "65f1c2a3b4d5e6f708192a71",
    "trigger": "schedule",
    "status": "partial",
    "requested_at": "2026-01-30T06:01:12Z",
    "requested_by": None,
    "started_at": "2026-01-30T06:01:13Z",
    "finished_at": "2026-01-30T06:02:40Z",
    "cancelled": False,
    "error": "1 items failed; see the messages of the run",
    "counts": {"created": 1, "updated": 2, "unchanged": 38, "skipped": 0, "failed": 1, "gone": 0},
    "removed": 0,
    "withheld": 0,
    "warnings": 0,
    "bytes_read": 123456,
    "messages": ["https://example.com/handbook/travel: the server answered with 500"],
}


class UrlCrawlConfig(StrictModel):
    """Pages of a web site."""

    url: SourceAddress = Field(description="Address of the first page.")
    depth: int = Field(
        default=1,
        ge=0,
        le=5,
        description="Number of links that may lead from the first page to another. 0: only the first page.",
    )
    prefixes: Annotated[list[SourceAddress], Field(max_length=10)] | None = Field(
        default=None,
        description="Addresses, or paths such as `/docs/`, below which pages are read. Null: the origin of `url`.",
    )


class FileUploadConfig(StrictModel):
    """A file that was uploaded with `POST /knowledge-sources/files`."""

    filename: SourceFileName = Field(description="Name of the file; its end names the format.")
    file_id: ObjectId = Field(description="Id that the upload returned.")


class McpConfig(StrictModel):
    """Text resources of an MCP server."""

    mcp_server_id: ObjectId = Field(description="Server, one of `GET /mcp-servers`.")
    resource_pattern: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = Field(
        default=None, description="Pattern of the URIs to read, with `*`, `?` and `[...]`. Null: all."
    )


SourceConfig = UrlCrawlConfig | FileUploadConfig | McpConfig
CONFIG_OF_KIND: Final[dict[str, type[StrictModel]]] = {
    "url_crawl": UrlCrawlConfig,
    "file_upload": FileUploadConfig,
    "mcp": McpConfig,
}


class CreateKnowledgeSource(StrictModel):
    model_config = example(
        {"label": "Handbook", "kind": "url_crawl", "config": _CRAWL, "cron_expression": "0 6 * * MON-FRI"}
    )

    label: Name
    kind: SourceKindName
    config: SourceConfig = Field(description="What the kind needs.")
    cron_expression: CronExpression | None = Field(
        default=None,
        description="Five fields, in UTC: minute, hour, day of month, month, day of week. Runs begin up to two minutes "
        "later. Null: the source runs only when it is asked to.",
    )
    enabled: bool = Field(default=True, description="Whether the source runs by itself.")

    @model_validator(mode="after")
    def _config_is_of_the_kind(self) -> Self:
        kind = CONFIG_OF_KIND[self.kind]
        if not isinstance(self.config, kind):
            raise wrong_field("config", message=f"must have the fields of {self.kind}: {', '.join(kind.model_fields)}")
        return self


class UpdateKnowledgeSource(StrictModel):
    """Fields that are left out stay as they are. The kind can't be changed."""

    model_config = example({"cron_expression": None})

    label: Name | None = None
    config: SourceConfig | None = Field(default=None, description="All of what the kind needs.")
    cron_expression: CronExpression | None = Field(
        default=None, description="Five fields, in UTC. Null: the source runs only when it is asked to."
    )
    enabled: bool | None = Field(default=None, description="Whether the source runs by itself.")


class KnowledgeSourceView(BaseModel):
    model_config = example(_SOURCE)

    source_id: str
    label: str
    kind: SourceKindName
    config: SourceConfig
    cron_expression: str | None = Field(description="When it runs, in UTC; null: only when it is asked to.")
    enabled: bool = Field(description="Whether it runs by itself.")
    next_run_at: datetime | None = Field(description="When it runs next by itself; null: it does not.")
    next_run_times: list[datetime] = Field(
        default=[], description="Next three times at which it runs by itself, so that a schedule can be checked."
    )
    last_run_at: datetime | None = Field(description="End of the last run.")
    last_run_status: LastRunStatus | None = Field(
        description="`partial`: some items failed or were left out; what came is kept. `error`: nothing was read."
    )
    last_run_error: str | None = Field(description="Why the last run was not `ok`, and what to do.")
    last_run_entry_count: int | None = Field(description="Number of entries of the source after the last run.")
    created_at: datetime
    created_by: str = Field(description="Id of the API key that created it.")
    updated_at: datetime
    updated_by: str = Field(description="Id of the API key that made the last change.")


class KnowledgeSourceList(BaseModel):
    model_config = example({"sources": [_SOURCE], "total_count": 1})

    sources: list[KnowledgeSourceView]
    total_count: int


class ItemCounts(BaseModel):
    """Number of items of a run, by what became of them."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = Field(default=0, description="Items that are no text, or are not meant to be read.")
    failed: int = Field(default=0, description="Items that could not be read or were refused; see `messages`.")
    gone: int = Field(default=0, description="Items of which the server says that they do not exist any more.")
    redirected: int = Field(default=0, description="Addresses that lead to another item.")


class SourceRunView(BaseModel):
    model_config = example(_RUN)

    run_id: str
    source_id: str
    trigger: Literal["manual", "schedule", "preview"]
    status: Literal["waiting", "running", "ok", "partial", "error"]
    requested_at: datetime
    requested_by: str | None = Field(description="Id of the API key that asked for it; null: the schedule.")
    started_at: datetime | None
    finished_at: datetime | None
    cancelled: bool
    error: str | None = Field(description="Why it is not `ok`, and what to do.")
    counts: ItemCounts
    removed: int = Field(description="Number of entries that were deleted because their items are gone.")
    withheld: int = Field(
        description="Number of entries that stay although their items are gone, because they are more than 30 % of the "
        "source's entries and more than 10."
    )
    warnings: int = Field(
        default=0,
        description="Number of items of whose text the parser says that something is missing or was guessed; see "
        "`messages`.",
    )
    bytes_read: int
    messages: list[str] = Field(
        description="What happened to single items, and what is to be said of their texts; at most 100."
    )


class SourceRunList(BaseModel):
    model_config = example({"runs": [_RUN], "total_count": 1})

    runs: list[SourceRunView]
    total_count: int


class PreviewedItem(BaseModel):
    """An item that would become an entry."""

    key: str = Field(description="What identifies the item in its source, such as its address.")
    title: str
    source_url: str | None
    character_count: int
    beginning: str = Field(description="First 500 characters of the text, in Markdown.")


class SourcePreview(BaseModel):
    model_config = example(
        {
            "items": [
                {
                    "key": "https://example.com/handbook/",
                    "title": "Handbook",
                    "source_url": "https://example.com/handbook/",
                    "character_count": 1800,
                    "beginning": "# Handbook",
                }
            ],
            "counts": {"created": 1},
            "warnings": 0,
            "messages": [],
            "error": None,
        }
    )

    items: list[PreviewedItem] = Field(description="The first items, at most 10.")
    counts: ItemCounts
    warnings: int = Field(default=0, description="Number of items whose text has a warning; see `messages`.")
    messages: list[str]
    error: str | None = Field(description="Why not all of it was read: for a preview, most often a limit.")


class SourceFile(BaseModel):
    model_config = example({"file_id": "65f1c2a3b4d5e6f708192a73", "filename": "travel.pdf", "size_bytes": 48213})

    file_id: str = Field(description="For `config.file_id` of a source. A file that no source names is deleted later.")
    filename: str
    size_bytes: int
