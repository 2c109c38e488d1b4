"""Pages for operators and admins, and the answers of the API behind them."""

from typing import Final

from pydantic import BaseModel

from kb_contracts.api.agents import AgentList
from kb_contracts.api.api_keys import ApiKeyList, CreatedApiKey
from kb_contracts.api.audit import AuditEntryList
from kb_contracts.api.budgets import BudgetView
from kb_contracts.api.dead_letters import (
    DeadLetterCounts,
    DeadLetterList,
    DeadLetterView,
    DiscardedDeadLetters,
    RedrivenDeadLetters,
)
from kb_contracts.api.document_lists import DocumentPage
from kb_contracts.api.insights import CitationInsights, QueryInsights, SearchInsights
from kb_contracts.api.jobs import JobView, OrganizationJobList
from kb_contracts.api.knowledge_base_batches import ActionOutcomes
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.llm_providers import LlmProviderList, LlmProviderView, ProviderCheckView, ProviderPauseView
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.operations import OperationCounts, OperationsView
from kb_contracts.api.organizations import OrganizationDeletionView, OrganizationSettingsView
from kb_contracts.api.reconcile import PassList, PlanList, PlanView, PlanWithRepairs
from kb_contracts.api.tags import TagView
from kb_contracts.api.unsendable_messages import UnsendableMessageList, UnsendableMessageView
from kb_contracts.api.usage import Usage
from kb_contracts.api.webhooks import (
    WebhookDeliveryList,
    WebhookDeliveryView,
    WebhookList,
    WebhookTestResult,
    WebhookView,
    WebhookWithSecret,
)

ORG: Final = "/console/orgs/acme"
KB_ID: Final = "65f1c2a3b4d5e6f708192a3b"
DOCUMENT_ID: Final = "handbook"
LETTER_ID: Final = "9b2f6c1e0d4a4f7c8a5b3e2d1c0f9a8b"
MESSAGE_ID: Final = "65f1c2a3b4d5e6f708192a40"
PLAN_ID: Final = "65f1c2a3b4d5e6f708192a3d"
JOB_ID: Final = "65f1c2a3b4d5e6f708192a3c"
KEY_ID: Final = "3f9c1d2e4b5a6978"
WEBHOOK_ID: Final = "65f1c2a3b4d5e6f708192a61"
DELIVERY_ID: Final = "65f1c2a3b4d5e6f708192a62"
_PROVIDER: Final = "/llm-providers/openai"
_WEBHOOK: Final = f"/webhooks/{WEBHOOK_ID}"
_KB: Final = f"/knowledge-bases/{KB_ID}"
_JOB: Final = f"{_KB}/jobs/{JOB_ID}"
_PLAN: Final = f"/reconcile/plans/{PLAN_ID}"

MODELS: Final[dict[str, type[BaseModel]]] = {
    "POST /knowledge-bases:batch": ActionOutcomes,
    f"POST {_KB}/search-indexes/rebuild": KnowledgeBaseView,
    "GET /operations": OperationsView,
    "GET /operations/counts": OperationCounts,
    "GET /documents": DocumentPage,
    "GET /dead-letters": DeadLetterList,
    "GET /dead-letters/counts": DeadLetterCounts,
    f"GET /dead-letters/{LETTER_ID}": DeadLetterView,
    f"POST /dead-letters/{LETTER_ID}/redrive": DeadLetterView,
    f"POST /dead-letters/{LETTER_ID}/discard": DeadLetterView,
    "POST /dead-letters:redrive": RedrivenDeadLetters,
    "POST /dead-letters:discard": DiscardedDeadLetters,
    "GET /unsendable-messages": UnsendableMessageList,
    f"POST /unsendable-messages/{MESSAGE_ID}/redrive": UnsendableMessageView,
    "GET /reconcile/passes": PassList,
    "GET /reconcile/plans": PlanList,
    "POST /reconcile": PlanView,
    f"POST {_KB}/reconcile": PlanView,
    f"POST {_KB}/documents/{DOCUMENT_ID}/reconcile": PlanView,
    f"GET {_PLAN}": PlanWithRepairs,
    f"POST {_PLAN}/apply": PlanView,
    "GET /jobs": OrganizationJobList,
    f"GET {_JOB}": JobView,
    f"DELETE {_JOB}": JobView,
    "GET /usage": Usage,
    "GET /budget": BudgetView,
    "PUT /budget": BudgetView,
    "GET /insights/searches": SearchInsights,
    "GET /insights/queries": QueryInsights,
    "GET /insights/citations": CitationInsights,
    "GET /agents": AgentList,
    "GET /api-keys": ApiKeyList,
    "POST /api-keys": CreatedApiKey,
    f"DELETE /api-keys/{KEY_ID}": MessageResponse,
    "GET /llm-providers": LlmProviderList,
    f"GET {_PROVIDER}": LlmProviderView,
    f"PUT {_PROVIDER}": LlmProviderView,
    f"DELETE {_PROVIDER}": MessageResponse,
    f"POST {_PROVIDER}/test": ProviderCheckView,
    f"POST {_PROVIDER}/pause": ProviderPauseView,
    f"POST {_PROVIDER}/resume": ProviderPauseView,
    "PUT /tags/hr": TagView,
    "DELETE /tags/hr": MessageResponse,
    "GET /webhooks": WebhookList,
    "POST /webhooks": WebhookWithSecret,
    f"GET {_WEBHOOK}": WebhookView,
    f"PUT {_WEBHOOK}": WebhookView,
    f"DELETE {_WEBHOOK}": MessageResponse,
    f"POST {_WEBHOOK}/test": WebhookTestResult,
    f"POST {_WEBHOOK}/rotate-secret": WebhookWithSecret,
    f"GET {_WEBHOOK}/deliveries": WebhookDeliveryList,
    f"POST {_WEBHOOK}/deliveries/{DELIVERY_ID}/redeliver": WebhookDeliveryView,
    "GET /audit": AuditEntryList,
    "GET /deletion": OrganizationDeletionView,
    "GET /settings": OrganizationSettingsView,
    "PUT /settings": OrganizationSettingsView,
    "DELETE ": OrganizationDeletionView,
}
"""Model of the answer to each call."""

PAGES: Final = [
    f"{ORG}/knowledge-bases/batch?action=pause&kb={KB_ID}",
    f"{ORG}/operations",
    f"{ORG}/operations/failed",
    f"{ORG}/operations/dead-letters",
    f"{ORG}/operations/dead-letters/{LETTER_ID}",
    f"{ORG}/operations/dead-letters/confirm/redrive?reason=unknown-text-ref",
    f"{ORG}/operations/unsendable-messages",
    f"{ORG}/operations/drift",
    f"{ORG}/operations/drift/plans/{PLAN_ID}",
    f"{ORG}/operations/drift/plans/{PLAN_ID}/apply",
    f"{ORG}/operations/jobs",
    f"{ORG}/operations/jobs/{KB_ID}/{JOB_ID}",
    f"{ORG}/usage",
    f"{ORG}/usage?by=kb&unit=usd&range=7d",
    f"{ORG}/usage/budget",
    f"{ORG}/insights",
    f"{ORG}/insights?by=zero_results&kb={KB_ID}&range=month",
    f"{ORG}/settings/keys",
    f"{ORG}/settings/keys/{KEY_ID}/revoke",
    f"{ORG}/settings/providers",
    f"{ORG}/settings/providers/openai/edit",
    f"{ORG}/settings/providers/openai/delete",
    f"{ORG}/settings/tags",
    f"{ORG}/settings/webhooks",
    f"{ORG}/settings/webhooks/{WEBHOOK_ID}",
    f"{ORG}/settings/webhooks/{WEBHOOK_ID}/delete",
    f"{ORG}/settings/audit",
    f"{ORG}/settings/audit?operation=api_keys.create&outcome=refused&since=2026-01-01&until=2026-01-31",
    f"{ORG}/settings/organization",
    f"{ORG}/settings/organization/delete",
]
WITHOUT_TEXTS: Final = frozenset(
    page
    for page in PAGES
    if "/confirm/" in page or page.endswith(("/apply", "/budget", "/usage", "/organization/delete"))
)
"""Pages that show nothing that users have written."""
TEXTS: Final = frozenset(
    {"reason", "topic", "kb_name", "problem", "repair", "query", "document_name", "name", "api_base", "url",
     "description", "operation", "last_error"}
)  # fmt: skip
"""Names of texts of these answers that users, or what they send, decide."""
