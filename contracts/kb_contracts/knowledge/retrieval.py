"""The result of a retrieval over three layers: metadata of entities, pieces, and the graph."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from kb_contracts.knowledge.properties import PropertyValue

RetrievalScore: TypeAlias = Annotated[float, Field(ge=0, le=1)]
PropertyMap: TypeAlias = dict[str, PropertyValue]


class RetrievedPiece(BaseModel):
    model_config = ConfigDict(frozen=True)

    piece_id: str
    content: str
    knowledge_type: str = Field(description="Kind of knowledge that the piece is, such as `fact`.")
    info_type: str = Field(description="Section that the piece goes to, such as `context`.")
    entity_id: str | None = Field(None, description="Entity of the piece; null: it applies to all entities.")
    title: str | None = None
    type: str | None = Field(None, description="Type of the entry, such as `rule`.")
    tags: list[str] = Field(default_factory=list, description="Tags in the order of the author.")
    score: RetrievalScore = Field(
        description="The higher of the relevance to the query and 1 / depth of the edge that the piece is linked to."
    )


class GraphRelation(BaseModel):
    """An edge that was reached from the entity."""

    model_config = ConfigDict(frozen=True)

    relation_type: str = Field(description="Type of the edge.")
    target_node_id: str
    target_type: str = Field(description="Type of the target node.")
    label: str | None = Field(None, description="Label of the target node.")
    depth: int = Field(ge=1, description="Number of edges from the entity to the target; 1 for edges of the entity.")
    piece_id: str | None = Field(None, description="Piece that the edge is linked to.")
    properties: PropertyMap = Field(default_factory=dict, description="Properties of the edge.")


class RetrievalResult(BaseModel):
    """Knowledge of an entity that belongs to a query. Without an entity, metadata and graph are empty."""

    model_config = ConfigDict(frozen=True)

    metadata: PropertyMap = Field(default_factory=dict, description="Properties of the entity.")
    global_metadata: PropertyMap = Field(default_factory=dict, description="Properties that apply to all entities.")
    pieces: list[RetrievedPiece] = Field(
        default_factory=list, description="Pieces by falling score, those of equal score by `piece_id`."
    )
    graph_context: list[GraphRelation] = Field(
        default_factory=list, description="Edges by depth, relation type and target."
    )
    sections: dict[str, str] = Field(default_factory=dict, description="Text of each section, by info type.")
