"""Nodes and directed edges of the graph of an organization."""

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints

from kb_contracts.api.model import StrictModel
from kb_contracts.knowledge.entities import EntityType
from kb_contracts.knowledge.properties import Properties
from kb_contracts.text_rules import storable

MAX_DEPTH: Final = 4
MAX_NODES: Final = 200
"""Limit of the nodes that one traversal visits."""
PIECE_ID_PROPERTY: Final = "piece_id"

NodeId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._@+:-]{1,200}$")]
"""Identifier of a node, by convention `type:name`; the node of an entity has the identifier of the entity."""
EdgeType: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
NodeLabel: TypeAlias = Annotated[
    str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$"), AfterValidator(storable)
]


class GraphNode(StrictModel):
    node_id: NodeId
    node_type: EntityType
    label: NodeLabel | None = None
    properties: Properties = Field(default_factory=dict)


class GraphEdge(StrictModel):
    """A directed edge; there is one for each source, type and target."""

    source_id: NodeId
    target_id: NodeId
    edge_type: EdgeType
    properties: Properties = Field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.source_id, self.edge_type, self.target_id

    @property
    def piece_id(self) -> str | None:
        """Identifier of the piece that the edge is linked to."""
        piece_id = self.properties.get(PIECE_ID_PROPERTY)
        return piece_id if isinstance(piece_id, str) else None
