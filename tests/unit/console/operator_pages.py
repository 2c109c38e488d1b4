"""Pages for operators and admins, and the answers of the API behind them."""

from typing import Final

from pydantic import BaseModel

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
from kb_contracts.api.operations import OperationsView
from kb_contracts.api.reconcile import PassList, PlanList, PlanView, PlanWithRepairs
from kb_contracts.api.unsendable_messages import UnsendableMessageList, UnsendableMessageView
from kb_contracts.api.usage import Usage

ORG: Final = "/console/orgs/acme"
KB_ID: Final = "65f1c2a3b4d5e6f708192a3b"
DOCUMENT_ID: Final = "handbook"
LETTER_ID: Final = "9b2f6c1e0d4a4f7c8a5b3e2d1c0f9a8b"
MESSAGE_ID: Final = "65f1c2a3b4d5e6f708192a40"
PLAN_ID: Final = "65f1c2a3b4d5e6f708192a3d"
JOB_ID: Final = "65f1c2a3b4d5e6f708192a3c"
_KB: Final = f"/knowledge-bases/{KB_ID}"
_JOB: Final = f"{_KB}/jobs/{JOB_ID}"
_PLAN: Final = f"/reconcile/plans/{PLAN_ID}"

MODELS: Final[dict[str, type[BaseModel]]] = {
    "GET /operations": OperationsView,
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
}
"""Model of the answer to each call."""

PAGES: Final = [
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
]
WITHOUT_TEXTS: Final = frozenset(
    page for page in PAGES if "/confirm/" in page or page.endswith(("/apply", "/budget", "/usage"))
)
"""Pages that show nothing that users have written."""
TEXTS: Final = frozenset({"reason", "topic", "kb_name", "problem", "repair", "query", "document_name"})
"""Names of texts of these answers that users, or what they send, decide."""
