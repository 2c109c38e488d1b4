"""Places the nodes of a graph on rings around one of them: those that are one edge away first, then two, and so on."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RING_DISTANCE: Final = 120
"""Least distance between two rings."""
NODE_DISTANCE: Final = 90
"""Least distance between two nodes of a ring, along it."""
_MARGIN: Final = 90


@dataclass(frozen=True, slots=True)
class PlacedNode:
    node_id: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    """A line between two nodes, which ends before the circle of the second one."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class GraphPicture:
    size: int
    """Width and height."""
    nodes: list[PlacedNode]
    edges: list[PlacedEdge]


def draw_graph(node_ids: Sequence[str], edges: Sequence[tuple[str, str]], *, center: str | None = None) -> GraphPicture:
    """Return the places of nodes and edges. The same graph has the same picture.

    Args:
        node_ids: nodes, each once.
        edges: source and target of each edge; those of other nodes are left out.
        center: node in the middle. Default: the one with the most edges.
    """
    known = set(node_ids)
    inside = [(source, target) for source, target in edges if source in known and target in known]
    neighbours: dict[str, set[str]] = defaultdict(set)
    for source, target in inside:
        neighbours[source].add(target)
        neighbours[target].add(source)
    if not node_ids:
        return GraphPicture(2 * _MARGIN, [], [])
    middle = center if center in known else max(node_ids, key=lambda each: (len(neighbours[each]), each))
    rings = _find_rings(node_ids, neighbours, middle=middle)
    points, radius = _place_rings(rings, neighbours)
    half = math.ceil(radius) + _MARGIN
    placed = {node_id: (round(half + x), round(half + y)) for node_id, (x, y) in points.items()}
    return GraphPicture(
        2 * half,
        [PlacedNode(node_id, *placed[node_id]) for node_id in node_ids],
        [_shorten(placed[source], placed[target]) for source, target in inside if source != target],
    )


def _find_rings(node_ids: Sequence[str], neighbours: Mapping[str, set[str]], *, middle: str) -> list[list[str]]:
    """Return the nodes by their distance from the middle; those without a path to it are on a ring of their own."""
    rings, seen = [[middle]], {middle}
    while True:
        reached = {each for node_id in rings[-1] for each in neighbours.get(node_id, ())} - seen
        if not reached:
            break
        rings.append(sorted(reached))
        seen |= reached
    alone = [node_id for node_id in node_ids if node_id not in seen]
    return [*rings, alone] if alone else rings


def _place_rings(
    rings: Sequence[Sequence[str]], neighbours: Mapping[str, set[str]]
) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the place of each node around (0, 0), and the radius of the outermost ring."""
    points: dict[str, tuple[float, float]] = {rings[0][0]: (0.0, 0.0)}
    angles: dict[str, float] = {}
    radius = 0.0
    for ring in rings[1:]:
        radius = max(radius + RING_DISTANCE, len(ring) * NODE_DISTANCE / math.tau)
        # Nodes of the same node of the ring before are beside each other, so that few edges cross.
        ordered = sorted(ring, key=lambda each: (_angle_of_parents(each, neighbours, angles), each))
        placed = {node_id: math.tau * number / len(ring) for number, node_id in enumerate(ordered)}
        for node_id, angle in placed.items():
            points[node_id] = (radius * math.cos(angle), radius * math.sin(angle))
        angles |= placed
    return points, radius


def _angle_of_parents(node_id: str, neighbours: Mapping[str, set[str]], angles: Mapping[str, float]) -> float:
    known = [angles[each] for each in neighbours.get(node_id, ()) if each in angles]
    return sum(known) / len(known) if known else 0.0


def _shorten(start: tuple[int, int], end: tuple[int, int], *, by: int = 12) -> PlacedEdge:
    length = math.dist(start, end) or 1.0
    share = max(0.0, length - by) / length
    return PlacedEdge(
        *start, round(start[0] + (end[0] - start[0]) * share), round(start[1] + (end[1] - start[1]) * share)
    )
