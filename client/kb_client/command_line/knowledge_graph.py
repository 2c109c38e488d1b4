"""`kb knowledge graph`: nodes, edges, and what is reached from an entity."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, ListedItems, RowLimit
from kb_client.command_line.output import print_answer, print_more
from kb_client.command_line.output_format import Output, OutputFormat, TableOrJson
from kb_client.command_line.property_options import PropertyOption, describe_properties, read_properties
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_graph import EdgeView, NeighbourhoodView, NodeView

app = command_group("graph", about="Relations between entities, techniques, places and other things.")

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Id of the node; the node of an entity has the id of the entity.")
]
EdgeTypeOption = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only edges of this type.")]


@app.command(epilog=examples("kb knowledge graph show user:alice --depth 2"))
def show(
    context: typer.Context,
    node: NodeArgument,
    *,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=1, max=4, help="Number of edges to follow.")] = 1,
    output: TableOrJson = "table",
) -> None:
    """Show what is reached from an entity or another node, along the direction of the edges."""
    with open_client(context) as client:
        found = client.graph.neighbourhood(node, depth=depth)
    print_answer(found, output, show=lambda: _print_neighbourhood(found))


@app.command("nodes", epilog=examples("kb knowledge graph nodes --type technique"))
def list_nodes(
    context: typer.Context,
    *,
    node_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only nodes of this type.")] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List the nodes by their ids."""
    with open_client(context) as client:
        total_count = client.graph.list_nodes(node_type=node_type, limit=1).total_count
        nodes = list(islice(client.graph.list_nodes.iterate(node_type=node_type), limit or None))
    print_answer(
        ListedItems(nodes, total_count).to_json("nodes"),
        output,
        rows="nodes",
        id_field="node_id",
        show=lambda: _print_nodes(nodes, total_count=total_count),
    )


@app.command("edges", epilog=examples("kb knowledge graph edges --from user:alice"))
def list_edges(
    context: typer.Context,
    *,
    source: Annotated[str | None, typer.Option("--from", metavar="NODE", help="Only edges from this node.")] = None,
    target: Annotated[str | None, typer.Option("--to", metavar="NODE", help="Only edges to this node.")] = None,
    edge_type: EdgeTypeOption = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List the edges."""
    filters: dict[str, Any] = {"source_id": source, "target_id": target, "edge_type": edge_type}
    with open_client(context) as client:
        total_count = client.graph.list_edges(**filters, limit=1).total_count
        edges = list(islice(client.graph.list_edges.iterate(**filters), limit or None))
    print_answer(
        ListedItems(edges, total_count).to_json("edges"),
        output,
        rows="edges",
        id_field="edge_id",
        show=lambda: _print_edges(edges, total_count=total_count),
    )


@app.command(
    epilog=examples('kb knowledge graph set-node technique:les --type technique --label "LES simulation expert"')
)
def set_node(
    context: typer.Context,
    node: NodeArgument,
    *,
    node_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Type. Default: the beginning of the id.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="TEXT", help="Description for people and models.")
    ] = None,
    properties: PropertyOption = None,
    output: Output = "table",
) -> None:
    """Create a node, or replace its type, label and properties."""
    given = read_properties(properties)
    with open_client(context) as client:
        stored = client.graph.put_node(
            node,
            node_type=node_type or node.partition(":")[0],
            label=UNSET if label is None else label,
            properties=given,
        )
    print_answer(stored, output, id_field="node_id", show=lambda: print(f"stored {stored.node_id}"))


@app.command(
    epilog=examples(
        "kb knowledge graph set-edge user:alice SPECIALIZES_IN technique:les --property piece_id=les-rans-init"
    )
)
def set_edge(
    context: typer.Context,
    *,
    source: Annotated[str, typer.Argument(metavar="FROM", help="Node that the edge begins at.")],
    edge_type: Annotated[str, typer.Argument(metavar="TYPE", help="Kind of relation, such as SPECIALIZES_IN.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Node that it leads to.")],
    properties: PropertyOption = None,
    output: Output = "table",
) -> None:
    """Create an edge between two nodes, or replace its properties. The property piece_id links it to a piece."""
    given = read_properties(properties)
    with open_client(context) as client:
        stored = client.graph.put_edge(source_id=source, edge_type=edge_type, target_id=target, properties=given)
    print_answer(stored, output, id_field="edge_id", show=lambda: print(f"stored {stored.edge_id}"))


@app.command(epilog=examples("kb knowledge graph delete-node technique:les --yes"))
def delete_node(
    context: typer.Context,
    node: NodeArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete a node with the edges from it and to it."""
    confirm(f"Delete the node {node} with its edges?", yes=yes)
    with open_client(context) as client:
        answer = client.graph.delete_node(node)
    _print_deleted({"node_id": node, **answer.model_dump()}, output, id_field="node_id")


@app.command(epilog=examples("kb knowledge graph delete-edge 5c1f0e9d8b7a69584736251f --yes"))
def delete_edge(
    context: typer.Context,
    edge: Annotated[
        str, typer.Argument(metavar="EDGE", help="Id of the edge, as in `kb knowledge graph edges --output ids`.")
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete an edge. Its nodes stay."""
    confirm(f"Delete the edge {edge}?", yes=yes)
    with open_client(context) as client:
        answer = client.graph.delete_edge(edge)
    _print_deleted({"edge_id": edge, **answer.model_dump()}, output, id_field="edge_id")


def _print_deleted(answer: dict[str, Any], output: OutputFormat, *, id_field: str) -> None:
    print_answer(answer, output, id_field=id_field, show=lambda: print(f"deleted {answer[id_field]}"))


def _print_neighbourhood(found: "NeighbourhoodView") -> None:
    if not found.nodes:
        print("There is no such node. `kb knowledge graph nodes` lists those that exist.")
        return
    print_table(
        ("depth", "from", "type", "to", "piece"),
        [
            (each.depth, each.source_id, each.edge_type, each.target_id, each.properties.get("piece_id"))
            for each in found.edges
        ],
    )
    if found.truncated:
        print("\nThere is more within this depth than is shown.")


def _print_nodes(found: "Sequence[NodeView]", *, total_count: int) -> None:
    rows = [(each.node_id, each.node_type, each.label, describe_properties(each.properties)) for each in found]
    _print_rows(("id", "type", "label", "properties"), rows, total_count=total_count, whole=["id"])


def _print_edges(found: "Sequence[EdgeView]", *, total_count: int) -> None:
    rows = [
        (each.source_id, each.edge_type, each.target_id, describe_properties(each.properties), each.edge_id)
        for each in found
    ]
    _print_rows(("from", "type", "to", "properties", "id"), rows, total_count=total_count, whole=["from", "to", "id"])


def _print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, total_count: int, whole: list[str]
) -> None:
    if not rows:
        print("There is nothing. `kb knowledge import` imports a graph.")
        return
    print_table(columns, rows, whole=whole)
    print_more(len(rows), total_count=total_count)
