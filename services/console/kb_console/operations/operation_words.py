"""Words for the reasons why work waits, and for the states of plans and passes."""

from collections.abc import Mapping
from typing import Final

from kb_console.status_words import StatusWords

WAITING_FOR: Final[Mapping[str, str]] = {
    "provider_429": "the provider limits requests",
    "provider_timeout": "the provider did not answer in time",
    "provider_5xx": "the provider failed or could not be reached",
    "provider_outage": "the provider is out",
    "rate_limited": "the limit of the knowledge base or of the provider's key is used up",
    "provider_auth": "the provider refuses the key: replace it",
    "provider_quota": "the quota of the provider's key is used up: raise it there",
    "provider_paused": "the provider is paused: resume it",
    "other_vectors": "another model answers than the one that the vectors came from: store its address again",
    "provider_key_missing": "the provider has no key: set it",
    "budget_exhausted": "the budget of this month is used up: raise it, or wait for the next month",
    "unknown_price": "the price of the model is not known, and the budget is in US dollars",
}
"""Types of errors of documents that another attempt may end."""
UNUSABLE_BECAUSE: Final[Mapping[str, str]] = {
    "outage": "its provider is out",
    "quota": "the quota of its key is used up: raise it at the provider",
    "key": "its key is refused: replace it",
}
OF_PLAN: Final[Mapping[str, StatusWords]] = {
    "requested": StatusWords("waits for the reconciler", "busy"),
    "running": StatusWords("comparing", "busy"),
    "planned": StatusWords("checked, nothing changed", "good"),
    "stopped": StatusWords("stopped: too many removals", "bad"),
    "approved": StatusWords("applied, waits for the reconciler", "busy"),
    "done": StatusWords("done", "good"),
    "failed": StatusWords("failed", "bad"),
}
UNFINISHED_PLANS: Final = frozenset({"requested", "running", "approved"})
APPLICABLE_PLANS: Final = frozenset({"planned", "stopped"})


def status_of_plan(state: str) -> StatusWords:
    """Return the words of a state; one that this version does not know speaks for itself."""
    return OF_PLAN.get(state, StatusWords(state, "idle"))
