"""The dependencies of this service's routes: what a handler can ask for in its signature."""

from typing import Annotated, TypeAlias

from fastapi import Depends

from kb_knowledge import (
    embedding_providers,
    import_knowledge,
    mcp_header_keys,
    remove_source_kinds,
    structure_text,
    write_entries,
)
from kb_knowledge.settings import KnowledgeSettings
from kb_shared.http import cursors, large_bodies
from kb_shared.http.authentication import Caller
from kb_shared.http.dependencies import provided
from kb_shared.http.request_limits import LimitedCallerWith
from kb_shared.mongo import database
from kb_shared.mongo.api_keys import Scope

Settings: TypeAlias = Annotated[KnowledgeSettings, Depends(provided(KnowledgeSettings))]
Database: TypeAlias = Annotated[database.Database, Depends(provided(database.Database))]
Cursors: TypeAlias = Annotated[cursors.Cursors, Depends(provided(cursors.Cursors))]
LargeBodies: TypeAlias = Annotated[large_bodies.LargeBodies, Depends(provided(large_bodies.LargeBodies))]
KnowledgeImporter: TypeAlias = Annotated[
    import_knowledge.KnowledgeImporter, Depends(provided(import_knowledge.KnowledgeImporter))
]
TextStructurer: TypeAlias = Annotated[structure_text.TextStructurer, Depends(provided(structure_text.TextStructurer))]
EntryWriter: TypeAlias = Annotated[write_entries.EntryWriter, Depends(provided(write_entries.EntryWriter))]
SourceKinds: TypeAlias = Annotated[
    remove_source_kinds.SourceKindRemover, Depends(provided(remove_source_kinds.SourceKindRemover))
]
EmbeddingProviders: TypeAlias = Annotated[
    embedding_providers.EmbeddingProviders, Depends(provided(embedding_providers.EmbeddingProviders))
]

McpHeaderKeys: TypeAlias = Annotated[mcp_header_keys.McpHeaderKeys, Depends(provided(mcp_header_keys.McpHeaderKeys))]

# Each of these counts as a request of administration.
Reader: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.READ))]
Writer: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.WRITE))]
Admin: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.ADMIN))]
