"""The dependencies of this service's routes: what a handler can ask for in its signature."""

from typing import Annotated, TypeAlias

from fastapi import Depends

from kb_search.authoring import authoring_checks
from kb_search.knowledge import retrieve_knowledge, search_entries
from kb_search.retrieval import explain_search, search_knowledge_base
from kb_search.runs import conduct_run, prepare_run
from kb_search.settings import SearchSettings
from kb_shared.chat import models
from kb_shared.http import authentication, cursors, request_limits
from kb_shared.http.authentication import CachedKeyWith, Caller, CallerWith
from kb_shared.http.dependencies import provided
from kb_shared.http.request_limits import LimitedCallerWith
from kb_shared.mongo import database
from kb_shared.mongo.api_keys import Scope

Settings: TypeAlias = Annotated[SearchSettings, Depends(provided(SearchSettings))]
Database: TypeAlias = Annotated[database.Database, Depends(provided(database.Database))]
RequestLimits: TypeAlias = Annotated[request_limits.RequestLimits, Depends(provided(request_limits.RequestLimits))]
KnowledgeBaseSearch: TypeAlias = Annotated[
    search_knowledge_base.KnowledgeBaseSearch, Depends(provided(search_knowledge_base.KnowledgeBaseSearch))
]
Cursors: TypeAlias = Annotated[cursors.Cursors, Depends(provided(cursors.Cursors))]
ChatModels: TypeAlias = Annotated[models.ChatCatalogue, Depends(provided(models.ChatCatalogue))]
EntrySearch: TypeAlias = Annotated[search_entries.EntrySearch, Depends(provided(search_entries.EntrySearch))]
KnowledgeRetrieval: TypeAlias = Annotated[
    retrieve_knowledge.KnowledgeRetrieval, Depends(provided(retrieve_knowledge.KnowledgeRetrieval))
]
SearchExplainer: TypeAlias = Annotated[
    explain_search.SearchExplainer, Depends(provided(explain_search.SearchExplainer))
]
Preparation: TypeAlias = Annotated[prepare_run.Preparation, Depends(provided(prepare_run.Preparation))]
Conductor: TypeAlias = Annotated[conduct_run.Conductor, Depends(provided(conduct_run.Conductor))]
AuthoringChecks: TypeAlias = Annotated[
    authoring_checks.AuthoringChecks, Depends(provided(authoring_checks.AuthoringChecks))
]

# Each of these counts as a request of administration.
Reader: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.READ))]
Writer: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.WRITE))]
ThreadCreator: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.SEARCH))]

# Searches and runs have limits of their own, which their handlers count.
Runner: TypeAlias = Annotated[Caller, Depends(CallerWith(Scope.SEARCH))]
SearchKey: TypeAlias = Annotated[authentication.CachedKey, Depends(CachedKeyWith(Scope.SEARCH))]
"""Key that may have been read earlier: the search reads it again while it works."""
