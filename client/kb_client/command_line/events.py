"""`kb events`: outcomes as they happen."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import shown, visible
from kb_client.command_line.output_format import TableOrJson

if TYPE_CHECKING:
    from kb_contracts.api.events import OutcomeEventView

app = command_group("events", about="Follow what happens to documents and knowledge bases.")

_NOT_SHOWN = ("organization_id", "kb_id", "document_id")


@app.callback()
def _keep_group() -> None:
    # Without it, a group with one command is that command.
    pass


@app.command(epilog=examples("kb events tail --type document.index_failed.v1 --kb handbook"))
def tail(
    context: typer.Context,
    *,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="POSITION", help="Begin behind this position, not with the next event."),
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type of event. May be repeated.")
    ] = None,
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="Only this knowledge base. May be repeated.")
    ] = None,
    output: TableOrJson = "table",
) -> None:
    """Print events as they happen, until Ctrl-C. A connection that is lost is opened again, and no event is missed."""
    with open_client(context) as client:
        kb_ids = [find_knowledge_base(client, each).kb_id for each in kb] if kb else None
        following = client.events.follow(after="latest" if after is None else after, types=types, kb_ids=kb_ids)
        with following as events:
            for event in events:
                # Flushed: the reader of a pipe waits for it.
                print(_as_json(event) if output == "json" else _as_text(event), flush=True)


def _as_json(event: "OutcomeEventView") -> str:
    return json.dumps(event.model_dump(mode="json"), ensure_ascii=False)


def _as_text(event: "OutcomeEventView") -> str:
    """Return one line: time, type, what it is about, and the other fields of the event."""
    about = [str(event.data[name]) for name in ("kb_id", "document_id") if event.data.get(name)]
    others = [f"{name}={value}" for name, value in event.data.items() if name not in _NOT_SHOWN]
    line = "  ".join((shown(event.time), event.type, "/".join(about), " ".join(others)))
    return visible(line).replace("\n", " ").rstrip()
