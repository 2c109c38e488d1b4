"""Places the nodes of a graph on rings around one of them: those that are one edge away first, then two, and so on."""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RING_DISTANCE: Final = 120
"""Least distance between two rings."""
NODE_DISTANCE: Final = 90
"""Least distance between two nodes of a ring, along it."""
_MARGIN: Final = 90
_GAP: Final = 12
"""Distance between the end of an edge and the middle of its node."""
_TIP: Final = 12
"""Length and width of the triangle at the end of an edge."""
_LABEL_ABOVE: Final = 16
_LABEL_BELOW: Final = 27


@dataclass(frozen=True, slots=True)
class PlacedNode:
    node_id: str
    x: int
    y: int
    label_y: int
    """Baseline of its name: on the side that no edge from the middle comes from."""


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    """A line between two nodes, which ends before the circle of the second one."""

    x1: int
    y1: int
    x2: int
    y2: int
    tip: str
    """Points of the triangle at its end."""


@dataclass(frozen=True, slots=True)
class GraphPicture:
    width: int
    height: int
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
        return GraphPicture(2 * _MARGIN, 2 * _MARGIN, [], [])
    middle = center if center in known else max(node_ids, key=lambda each: (len(neighbours[each]), each))
    points = _place_rings(_find_branches(node_ids, neighbours, middle=middle), middle=middle)
    left, top = (min(point[axis] for point in points.values()) - _MARGIN for axis in (0, 1))
    right, bottom = (max(point[axis] for point in points.values()) + _MARGIN for axis in (0, 1))
    placed = {node_id: (round(x - left), round(y - top)) for node_id, (x, y) in points.items()}
    return GraphPicture(
        math.ceil(right - left),
        math.ceil(bottom - top),
        [_with_label(node_id, placed[node_id], middle_y=placed[middle][1]) for node_id in node_ids],
        [_draw_arrow(placed[source], placed[target]) for source, target in inside if source != target],
    )


def _find_branches(node_ids: Sequence[str], neighbours: Mapping[str, set[str]], *, middle: str) -> dict[str, list[str]]:
    """Return the nodes that are reached from each node first. Those without a path to the middle belong to it."""
    branches: dict[str, list[str]] = {middle: []}
    waiting = deque([middle])
    while waiting:
        node_id = waiting.popleft()
        for each in sorted(neighbours.get(node_id, ())):
            if each not in branches:
                branches[each] = []
                branches[node_id].append(each)
                waiting.append(each)
    alone = [node_id for node_id in node_ids if node_id not in branches]
    branches[middle] += alone
    return branches | {node_id: [] for node_id in alone}


def _place_rings(branches: Mapping[str, Sequence[str]], *, middle: str) -> dict[str, tuple[float, float]]:
    """Return the place of each node around (0, 0). What is behind a node is in its sector, so few edges cross."""
    leaves = _count_leaves(branches, middle=middle)
    points = {middle: (0.0, 0.0)}
    sectors = {middle: (0.0, math.tau)}
    ring, radius = [middle], 0.0
    # Every leaf has the same angle, so this distance fits at the radius of any ring.
    least_radius = NODE_DISTANCE * leaves[middle] / math.tau
    while ring := [each for node_id in ring for each in branches[node_id]]:
        radius = max(radius + RING_DISTANCE, least_radius if len(ring) > 1 else 0.0)
        for node_id, (start, width) in _cut_sectors(ring, branches, leaves=leaves, sectors=sectors).items():
            sectors[node_id] = (start, width)
            angle = start + width / 2
            points[node_id] = (radius * math.cos(angle), radius * math.sin(angle))
    return points


def _cut_sectors(
    ring: Sequence[str],
    branches: Mapping[str, Sequence[str]],
    *,
    leaves: Mapping[str, int],
    sectors: Mapping[str, tuple[float, float]],
) -> dict[str, tuple[float, float]]:
    """Return start and width of the sector of each node of a ring, which is a part of that of its parent."""
    wanted = set(ring)
    cut: dict[str, tuple[float, float]] = {}
    for parent, (begin, width) in sectors.items():
        start = begin
        children = [each for each in branches[parent] if each in wanted]
        total = sum(leaves[each] for each in children)
        for child in children:
            share = width * leaves[child] / total
            cut[child] = (start, share)
            start += share
    return cut


def _count_leaves(branches: Mapping[str, Sequence[str]], *, middle: str) -> dict[str, int]:
    """Return for each node how many ends of branches are behind it; 1 for such an end itself."""
    order = [middle]
    for node_id in order:
        order.extend(branches[node_id])
    leaves: dict[str, int] = {}
    for node_id in reversed(order):
        leaves[node_id] = sum(leaves[each] for each in branches[node_id]) or 1
    return leaves


def _with_label(node_id: str, place: tuple[int, int], *, middle_y: int) -> PlacedNode:
    x, y = place
    return PlacedNode(node_id, x, y, label_y=y - _LABEL_ABOVE if y < middle_y else y + _LABEL_BELOW)


def _draw_arrow(start: tuple[int, int], end: tuple[int, int]) -> PlacedEdge:
    length = math.dist(start, end) or 1.0
    along_x, along_y = (end[0] - start[0]) / length, (end[1] - start[1]) / length

    def point(before_end: float, *, beside: float = 0.0) -> tuple[int, int]:
        return (
            round(end[0] - along_x * before_end - along_y * beside),
            round(end[1] - along_y * before_end + along_x * beside),
        )

    corners = (point(_GAP), point(_GAP + _TIP, beside=_TIP / 2), point(_GAP + _TIP, beside=-_TIP / 2))
    return PlacedEdge(*start, *point(_GAP + _TIP / 2), tip=" ".join(f"{x},{y}" for x, y in corners))
