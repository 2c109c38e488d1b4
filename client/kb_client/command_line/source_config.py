"""Reads where a source fetches its entries from: options of the commands that add and change sources."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kb_client.command_line.source_names import find_mcp_server
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_sources import SourceFile, SourceKindName

SourceUrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="First page of a web site that is read.")
]
DepthOption = Annotated[
    int | None,
    typer.Option(
        "--depth", metavar="N", min=0, max=5, help="Links that may lead from the first page to another; by default 1."
    ),
]
PrefixOption = Annotated[
    list[str] | None,
    typer.Option(
        "--prefix", metavar="PREFIX", help="Only pages below this address or path. May be repeated. Default: the site."
    ),
]
SourceFileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="File that is uploaded: txt, md, html, csv, pdf or docx.")
]
SourceServerOption = Annotated[
    str | None,
    typer.Option("--mcp-server", metavar="SERVER", help="MCP server, by label or id, whose text resources are read."),
]
ResourcesOption = Annotated[
    str | None,
    typer.Option("--resources", metavar="PATTERN", help="Only resources whose URI matches, with * and ?."),
]

_KINDS: Final[dict[str, "SourceKindName"]] = {"url": "url_crawl", "file": "file_upload", "mcp_server": "mcp"}
_OF_KIND: Final = {
    "url_crawl": ("url", "depth", "prefixes"),
    "file_upload": ("file",),
    "mcp": ("mcp_server", "resources"),
}
_OPTIONS: Final = {
    "url": "--url",
    "depth": "--depth",
    "prefixes": "--prefix",
    "file": "--file",
    "mcp_server": "--mcp-server",
    "resources": "--resources",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a command that say what a source reads; None where there is none."""

    url: str | None = None
    depth: int | None = None
    prefixes: list[str] | None = None
    file: Path | None = None
    mcp_server: str | None = None
    resources: str | None = None

    @property
    def given(self) -> list[str]:
        return [each.name for each in fields(self) if getattr(self, each.name) is not None]


def find_kind(options: SourceOptions) -> "SourceKindName":
    """Return the kind of a new source.

    Raises:
        BadParameter: the options are not those of one kind.
    """
    kinds = [kind for name, kind in _KINDS.items() if name in options.given]
    if len(kinds) != 1:
        raise typer.BadParameter("say what it reads: pass one of --url, --file and --mcp-server")
    require_kind(options, kinds[0])
    return kinds[0]


def require_kind(options: SourceOptions, kind: "SourceKindName") -> None:
    """Check that all options are those of sources of a kind.

    Raises:
        BadParameter: one of them is not.
    """
    if wrong := [_OPTIONS[name] for name in options.given if name not in _OF_KIND[kind]]:
        usable = ", ".join(_OPTIONS[name] for name in _OF_KIND[kind])
        raise typer.BadParameter(f"{wrong[0]} is not for a source of the kind {kind}, which takes {usable}")


def build_config(client: "Client", options: SourceOptions) -> dict[str, Any]:
    """Return the fields of `config` that the options set. A file is uploaded for it.

    Raises:
        UnusableRequest: the file can't be read, or there is no such MCP server.
    """
    config: dict[str, Any] = {"url": options.url, "depth": options.depth, "prefixes": options.prefixes}
    config["resource_pattern"] = options.resources
    if options.file is not None:
        uploaded = upload(client, options.file)
        config |= {"filename": uploaded.filename, "file_id": uploaded.file_id}
    if options.mcp_server is not None:
        config["mcp_server_id"] = find_mcp_server(client, options.mcp_server).mcp_server_id
    return {name: value for name, value in config.items() if value is not None}


def upload(client: "Client", path: Path) -> "SourceFile":
    """Upload a file for sources.

    Raises:
        UnusableRequest: it can't be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnusableRequest(f"{path} can't be read: {error.strerror}") from None
    return client.knowledge_sources.upload_file(path.name, content)
