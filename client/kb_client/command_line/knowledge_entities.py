"""`kb knowledge entities`: properties of what knowledge is about."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, ListedItems, RowLimit
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.property_options import PropertyOption, describe_properties, read_properties
from kb_client.command_line.tables import print_table
from kb_client.errors import HttpNotFound
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.entities import EntityView

app = command_group("entities", about="Properties of people, teams and things that knowledge is about.")

EntityArgument = Annotated[
    str, typer.Argument(metavar="ENTITY", help="Id such as user:alice, or global for what applies to all.")
]


@app.command("list", epilog=examples("kb knowledge entities list --type user"))
def list_all(
    context: typer.Context,
    *,
    entity_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only of this type.")] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List the entities by their ids."""
    with open_client(context) as client:
        total_count = client.entities.list(entity_type=entity_type, limit=1).total_count
        entities = list(islice(client.entities.list.iterate(entity_type=entity_type), limit or None))
    print_answer(
        ListedItems(entities, total_count).to_json("entities"),
        output,
        rows="entities",
        id_field="entity_id",
        show=lambda: _print_list(entities, total_count=total_count),
    )


@app.command(epilog=examples("kb knowledge entities get user:alice"))
def get(context: typer.Context, entity: EntityArgument, *, output: Output = "table") -> None:
    """Show an entity with its properties."""
    with open_client(context) as client:
        found = client.entities.get(entity)
    _print_entity(found, output)


@app.command(
    "set",
    epilog=examples(
        "kb knowledge entities set user:alice --property team=aero --property seniority=5",
        "kb knowledge entities set global --property organization=NASA",
        "kb knowledge entities set user:alice --remove seniority",
    ),
)
def put(
    context: typer.Context,
    entity: EntityArgument,
    *,
    entity_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Type. Default: the beginning of the id.")
    ] = None,
    properties: PropertyOption = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="NAME", help="Property to remove. May be repeated.")
    ] = None,
    output: Output = "table",
) -> None:
    """Set properties of an entity, which is created if it does not exist. What is not named stays as it is."""
    given = read_properties(properties)
    with open_client(context) as client:
        before = _find(client, entity)
        kept = {} if before is None else {k: v for k, v in before.properties.items() if k not in (remove or ())}
        default_type = entity.partition(":")[0] if ":" in entity else UNSET
        stored = client.entities.put(
            entity,
            entity_type=entity_type or (default_type if before is None else before.entity_type),
            properties=kept | given,
        )
    _print_entity(stored, output)


@app.command(epilog=examples("kb knowledge entities delete user:alice --yes"))
def delete(
    context: typer.Context,
    entity: EntityArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete an entity. Its entries and its node in the graph stay."""
    confirm(f"Delete the properties of {entity}?", yes=yes)
    with open_client(context) as client:
        answer = client.entities.delete(entity)
    print_answer(
        {"entity_id": entity, **answer.model_dump()},
        output,
        id_field="entity_id",
        show=lambda: print(f"deleted {entity}; its entries stay"),
    )


def _find(client: "Client", entity: str) -> "EntityView | None":
    try:
        return client.entities.get(entity)
    except HttpNotFound:
        return None


def _print_list(found: "Sequence[EntityView]", *, total_count: int) -> None:
    if not found:
        print("There is no entity. `kb knowledge entities set` creates one.")
        return
    print_table(
        ("id", "type", "properties"),
        [(each.entity_id, each.entity_type, describe_properties(each.properties)) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_entity(entity: "EntityView", output: OutputFormat) -> None:
    fields = {"id": entity.entity_id, "type": entity.entity_type, **entity.properties}
    print_answer(entity, output, id_field="entity_id", show=lambda: print_fields(fields))
