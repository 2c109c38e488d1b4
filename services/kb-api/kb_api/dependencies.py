"""The dependencies of this service's routes: what a handler can ask for in its signature."""

from typing import Annotated, TypeAlias

from fastapi import Depends

from kb_api import (
    check_provider,
    create_knowledge_base,
    delete_organization,
    life_cycle,
    message_limits,
    preview_knowledge_base,
    provider_keys,
    publish_document_event,
    searchable_documents,
    stored_bytes,
)
from kb_api.outcome_events import event_feed
from kb_api.settings import ApiSettings
from kb_api.webhooks import webhook_secrets, webhook_sender
from kb_shared.embedding import organization_models
from kb_shared.http import cursors, request_limits
from kb_shared.http.authentication import Caller, CallerWith
from kb_shared.http.dependencies import provided
from kb_shared.http.request_limits import LimitedCallerWith
from kb_shared.mongo import database
from kb_shared.mongo.api_keys import Scope

Settings: TypeAlias = Annotated[ApiSettings, Depends(provided(ApiSettings))]
Database: TypeAlias = Annotated[database.Database, Depends(provided(database.Database))]
OrganizationModels: TypeAlias = Annotated[
    organization_models.OrganizationModels, Depends(provided(organization_models.OrganizationModels))
]
Cursors: TypeAlias = Annotated[cursors.Cursors, Depends(provided(cursors.Cursors))]
RequestLimits: TypeAlias = Annotated[request_limits.RequestLimits, Depends(provided(request_limits.RequestLimits))]
OrganizationDeletions: TypeAlias = Annotated[
    delete_organization.OrganizationDeletions, Depends(provided(delete_organization.OrganizationDeletions))
]
LifeCycle: TypeAlias = Annotated[life_cycle.LifeCycle, Depends(provided(life_cycle.LifeCycle))]
StoredBytes: TypeAlias = Annotated[stored_bytes.StoredBytes, Depends(provided(stored_bytes.StoredBytes))]
MessageLimits: TypeAlias = Annotated[message_limits.MessageLimits, Depends(provided(message_limits.MessageLimits))]
KnowledgeBaseCreator: TypeAlias = Annotated[
    create_knowledge_base.KnowledgeBaseCreator, Depends(provided(create_knowledge_base.KnowledgeBaseCreator))
]
KnowledgeBasePreviewer: TypeAlias = Annotated[
    preview_knowledge_base.KnowledgeBasePreviewer, Depends(provided(preview_knowledge_base.KnowledgeBasePreviewer))
]
DocumentEventPublisher: TypeAlias = Annotated[
    publish_document_event.DocumentEventPublisher, Depends(provided(publish_document_event.DocumentEventPublisher))
]
SearchableDocuments: TypeAlias = Annotated[
    searchable_documents.SearchableDocuments, Depends(provided(searchable_documents.SearchableDocuments))
]
EventFeed: TypeAlias = Annotated[event_feed.EventFeed, Depends(provided(event_feed.EventFeed))]
WebhookSecrets: TypeAlias = Annotated[webhook_secrets.WebhookSecrets, Depends(provided(webhook_secrets.WebhookSecrets))]
WebhookSender: TypeAlias = Annotated[webhook_sender.WebhookSender, Depends(provided(webhook_sender.WebhookSender))]
ProviderChecks: TypeAlias = Annotated[check_provider.ProviderChecks, Depends(provided(check_provider.ProviderChecks))]
ProviderKeys: TypeAlias = Annotated[provider_keys.ProviderKeys, Depends(provided(provider_keys.ProviderKeys))]

# Each of these counts as a request of administration.
Reader: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.READ))]
Writer: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.WRITE))]
Admin: TypeAlias = Annotated[Caller, Depends(LimitedCallerWith(Scope.ADMIN))]

# These don't: an upstream sends as many requests as it has documents.
DocumentReader: TypeAlias = Annotated[Caller, Depends(CallerWith(Scope.READ))]
DocumentWriter: TypeAlias = Annotated[Caller, Depends(CallerWith(Scope.WRITE))]
