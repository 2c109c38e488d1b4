"""The graph as a picture and as tables, and its nodes and edges."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.knowledge.graph_picture import draw_graph
from kb_console.knowledge.property_lines import format_properties, parse_properties
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.knowledge_graph import EdgeView, NodeView, TraversalDepth
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

_NODES: Final = 60
"""Nodes of a picture without a middle: more are no picture."""
_EDGES: Final = 100
_NODE = "/knowledge/graph/nodes/{node_id}"
_FormText = Annotated[str, Form()]
_Done = Annotated[str, Query(max_length=40)]

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class ShownGraph:
    nodes: list[NodeView]
    edges: list[EdgeView]
    is_truncated: bool = False


@router.get("/knowledge/graph")
async def show_graph(
    request: Request,
    visit: Visitor,
    *,
    entity_id: Annotated[str, Query(max_length=200)] = "",
    depth: TraversalDepth = 1,
    done: _Done = "",
) -> HTMLResponse:
    return await _render_graph(request, visit, entity_id=entity_id, depth=depth, done=done)


@router.post("/knowledge/graph/nodes")
async def put_node(
    request: Request,
    visit: Visitor,
    *,
    node_id: _FormText = "",
    node_type: _FormText = "",
    label: _FormText = "",
    properties: _FormText = "",
    is_new: _FormText = "",
) -> Response:
    typed = {"node_id": node_id, "node_type": node_type, "label": label, "properties": properties}
    try:
        await visit.api.graph.put_node(
            node_id.strip(),
            node_type=node_type.strip(),
            label=label.strip() or None,
            properties=parse_properties(properties),
        )
    except (UnusableForm, ApiError) as error:
        problem = describe_refusal(error)
        if is_new:
            return await _render_graph(request, visit, typed=typed, problem=problem)
        return await _render_node(request, visit, node_id, typed=typed, problem=problem)
    return RedirectResponse(visit.address(KNOWLEDGE, "graph", "nodes", node_id.strip(), done="saved"), 303)


@router.post("/knowledge/graph/edges")
async def put_edge(
    request: Request,
    visit: Visitor,
    *,
    source_id: _FormText = "",
    edge_type: _FormText = "",
    target_id: _FormText = "",
    piece_id: _FormText = "",
) -> Response:
    typed = {"source_id": source_id, "edge_type": edge_type, "target_id": target_id, "piece_id": piece_id}
    try:
        await visit.api.graph.put_edge(
            source_id=source_id.strip(),
            edge_type=edge_type.strip(),
            target_id=target_id.strip(),
            properties={"piece_id": piece_id.strip()} if piece_id.strip() else {},
        )
    except ApiError as error:
        return await _render_graph(request, visit, typed=typed, problem=describe_refusal(error))
    return RedirectResponse(visit.address(KNOWLEDGE, "graph", entity_id=source_id.strip(), done="connected"), 303)


@router.post("/knowledge/graph/edges/{edge_id}/delete")
async def delete_edge(visit: Visitor, edge_id: str, *, node_id: _FormText = "") -> Response:
    await visit.api.graph.delete_edge(edge_id)
    return RedirectResponse(visit.address(KNOWLEDGE, "graph", "nodes", node_id, done="disconnected"), 303)


@router.get(_NODE)
async def show_node(request: Request, visit: Visitor, node_id: str, done: _Done = "") -> HTMLResponse:
    return await _render_node(request, visit, node_id, done=done)


@router.get(_NODE + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, node_id: str) -> HTMLResponse:
    return await _render_node(request, visit, node_id, template="node_delete.html")


@router.post(_NODE + "/delete")
async def delete_node(visit: Visitor, node_id: str) -> Response:
    await visit.api.graph.delete_node(node_id)
    return RedirectResponse(visit.address(KNOWLEDGE, "graph", done="deleted"), 303)


async def _read_graph(visit: Visit, *, entity_id: str, depth: int) -> ShownGraph:
    """Return what is around an entity; without one, the first nodes of the organization."""
    if entity_id:
        found = await visit.api.graph.neighbourhood(entity_id, depth=depth)
        return ShownGraph(found.nodes, list(found.edges), is_truncated=found.truncated)
    nodes, edges = await run_two_or_cancel(
        visit.api.graph.list_nodes(limit=_NODES), visit.api.graph.list_edges(limit=_EDGES)
    )
    has_more = nodes.total_count > len(nodes.nodes) or edges.total_count > len(edges.edges)
    return ShownGraph(nodes.nodes, edges.edges, is_truncated=has_more)


async def _render_graph(
    request: Request,
    visit: Visit,
    *,
    entity_id: str = "",
    depth: int = 1,
    typed: dict[str, str] | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    graph = await _read_graph(visit, entity_id=entity_id, depth=depth)
    picture = draw_graph(
        [node.node_id for node in graph.nodes],
        [(edge.source_id, edge.target_id) for edge in graph.edges],
        center=entity_id or None,
    )
    return render_page(
        request,
        "graph.html",
        part="_graph.html",
        status_code=200 if problem is None else problem.status,
        graph=graph,
        picture=picture,
        entity_id=entity_id,
        depth=depth,
        typed=typed or {},
        problem=problem,
        done=done,
    )


async def _render_node(
    request: Request,
    visit: Visit,
    node_id: str,
    *,
    template: str = "node.html",
    typed: dict[str, str] | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    node, leaving, arriving = await run_three_or_cancel(
        visit.api.graph.get_node(node_id),
        visit.api.graph.list_edges(source_id=node_id, limit=_EDGES),
        visit.api.graph.list_edges(target_id=node_id, limit=_EDGES),
    )
    stored: dict[str, Any] = {
        "node_id": node.node_id,
        "node_type": node.node_type,
        "label": node.label or "",
        "properties": format_properties(node.properties),
    }
    return render_page(
        request,
        template,
        status_code=200 if problem is None else problem.status,
        node=node,
        leaving=leaving,
        arriving=arriving,
        typed=typed or stored,
        problem=problem,
        done=done,
    )
