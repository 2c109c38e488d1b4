"""The form of a source: a label, a schedule, and what its kind needs."""

from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import FormData

from kb_console.errors import UnusableForm
from kb_contracts.api.knowledge_sources import (
    FileUploadConfig,
    KnowledgeSourceView,
    McpConfig,
    SourceKindName,
    UrlCrawlConfig,
)

KINDS: Final[dict[SourceKindName, str]] = {
    "url_crawl": "pages of a web site",
    "file_upload": "a file",
    "mcp": "resources of an MCP server",
}


@dataclass(frozen=True, slots=True)
class SourceForm:
    kind: str = "url_crawl"
    label: str = ""
    cron_expression: str = ""
    enabled: str = "on"
    """`on`, as browsers send a marked box, or empty."""
    url: str = ""
    depth: str = "1"
    prefixes: str = ""
    """A line for each one."""
    mcp_server_id: str = ""
    resource_pattern: str = ""
    filename: str = ""
    file_id: str = ""
    """Id of the stored file, which a change without another file keeps."""

    @classmethod
    def from_form(cls, form: FormData) -> "SourceForm":
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        return cls(**{"enabled": "", **typed})

    @classmethod
    def from_view(cls, source: KnowledgeSourceView) -> "SourceForm":
        return cls(
            kind=source.kind,
            label=source.label,
            cron_expression=source.cron_expression or "",
            enabled="on" if source.enabled else "",
            **_typed_config(source.config),
        )

    def config(self) -> dict[str, Any]:
        """Return what the kind needs.

        Raises:
            UnusableForm: the depth is no number, or the kind is unknown.
        """
        match self.kind:
            case "url_crawl":
                if not self.depth.strip().isdecimal():
                    raise UnusableForm({"depth": "must be a whole number"})
                prefixes = [line.strip() for line in self.prefixes.splitlines() if line.strip()]
                return {"url": self.url.strip(), "depth": int(self.depth), "prefixes": prefixes or None}
            case "file_upload":
                return {"filename": self.filename, "file_id": self.file_id}
            case "mcp":
                pattern = self.resource_pattern.strip() or None
                return {"mcp_server_id": self.mcp_server_id, "resource_pattern": pattern}
            case _:
                raise UnusableForm({"kind": "There is no such kind of source"})

    def changeable(self) -> dict[str, Any]:
        """Return the fields that an existing source can change.

        Raises:
            UnusableForm: as `config`.
        """
        return {
            "label": self.label.strip(),
            "config": self.config(),
            "cron_expression": self.cron_expression.strip() or None,
            "enabled": bool(self.enabled),
        }


def _typed_config(config: object) -> dict[str, str]:
    match config:
        case UrlCrawlConfig():
            return {"url": config.url, "depth": str(config.depth), "prefixes": "\n".join(config.prefixes or ())}
        case FileUploadConfig():
            return {"filename": config.filename, "file_id": config.file_id}
        case McpConfig():
            return {"mcp_server_id": config.mcp_server_id, "resource_pattern": config.resource_pattern or ""}
        case _:
            return {}
