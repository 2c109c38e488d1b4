"""Errors, sorted by what their receiver does next.

KbError
├── TransientError           later may help: try again, no sooner than `retry_after_s`
│   ├── ProviderUnavailable  the embedding provider timed out, is limiting us, or is down
│   ├── SearchUnavailable    MongoDB answers, and has no Atlas search
│   ├── OutcomeUnknown       a commit was sent and not acknowledged: it may have been done, or may be done later
│   ├── TimedOut             no answer was seen in time: MongoDB is away, or there is too much to do at once
│   │   └── TransactionExpired  a transaction took longer than it may; it is undone
│   └── WriteConflicts       others held the rows of a transaction, again and again
├── Parked                   nothing wrong with the work; its tenant's provider is out, or a limit is used up: wait,
│                            count no attempt
│   ├── BudgetExhausted      its tenant's budget has no room for it this month
│   └── UnknownPrice         its tenant has a budget in money, and nobody knows what the model costs
├── PermanentError           trying again changes nothing: mark failed with the reason
│   ├── ProviderRefused      the embedding provider will not take this key, model or text
│   │   ├── ProviderKeyMissing  there is no key to ask it with
│   │   ├── ProviderKeyRefused  nothing for this key, whatever is asked: wrong, or its quota is used up
│   │   └── BatchRefused     something in these texts, or their number: ask for fewer, until it is found
│   ├── UnknownModel         no embedding model is called so here
│   ├── ModelNotAllowed      the deployment does not let organizations use this chat model
│   ├── MessageRefused       Kafka will not take this message, now or later
│   ├── DocumentUnfit        the document itself can't be indexed (too many chunks, ...)
│   └── KnowledgeBaseFull    it has as many documents or chunks as it may have
├── Misconfigured            a setting can't be used: the process ends, and an operator changes it
├── WrongSurroundings        Kafka or MongoDB is not set up as it must be: wait, and log what an operator has to change
└── RequestError             the HTTP caller's to fix: carries status, slug and what to do
    └── NotFound             missing, malformed or another organization's: all the same 404

A message that can't be used is `kb_contracts.errors.Rejected`: it goes to the dead letters with its reason.
"""

from collections.abc import Mapping, Sequence


class KbError(Exception):
    """Any error this system raises on purpose."""

    @property
    def kind(self) -> str:
        """A stable word for rows and metric labels, taken from the class and never from a text."""
        return type(self).__name__


class TransientError(KbError):
    """Something outside failed in a way that passes."""

    def __init__(self, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProviderUnavailable(TransientError):
    """Timeout, 408, 429 or 5xx of an embedding provider."""

    def __init__(self, detail: str, *, error_type: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)
        self.error_type = error_type


class SearchUnavailable(TransientError):
    """MongoDB does not know search commands: it is not Atlas, or search is not set up. An operator has to set it up."""


class OutcomeUnknown(TransientError):
    """A transaction may be committed or not; if its work is repeated, it may be done already."""


class TimedOut(TransientError):
    """No answer was seen in time: MongoDB is away, or it or this process has too little CPU for all that it does."""


class TransactionExpired(TimedOut):
    """The time of a transaction was over, and it is undone."""


class WriteConflicts(TransientError):
    """Others wrote the same rows, or hold them after they died: nothing is wrong with the work."""


class Parked(KbError):
    """The work is sound but its tenant's provider is out, or its limit; it waits without using up an attempt."""

    def __init__(self, detail: str, *, error_type: str, retry_after_s: float) -> None:
        super().__init__(detail)
        self.error_type = error_type
        self.retry_after_s = retry_after_s


class BudgetExhausted(Parked):
    """The hard budget has no room for the work; nothing of it has begun."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail, error_type="budget_exhausted", retry_after_s=retry_after_s)


class UnknownPrice(Parked):
    """The tenant has a budget in money and the price of the model is not known; nothing of the work has begun."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail, error_type="unknown_price", retry_after_s=retry_after_s)


class PermanentError(KbError):
    """Trying again changes nothing."""

    error_type: str = "permanent"


class ProviderRefused(PermanentError):
    """The provider answered that this key, model or text will never do, or answered nonsense."""

    def __init__(self, detail: str, *, error_type: str) -> None:
        super().__init__(detail)
        self.error_type = error_type


class ProviderKeyMissing(ProviderRefused):
    """`str()` names the environment variables to set."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, error_type="provider_key_missing")


class ProviderKeyRefused(ProviderRefused):
    """The key is wrong, may not do this, or its quota is used up: sound work waits until somebody sees to it."""


class BatchRefused(ProviderRefused):
    """One of the texts is too long or not allowed, or all together are too large; of a lone text it is that one."""


class UnknownModel(PermanentError):
    """No embedding model of this deployment is called so."""

    error_type = "unknown_model"


class ModelNotAllowed(PermanentError):
    """The deployment's list of chat models does not have this one."""

    error_type = "model_not_allowed"

    def __init__(self, detail: str, *, allowed: Sequence[str]) -> None:
        super().__init__(detail)
        self.allowed = tuple(allowed)
        """Names and patterns that may be used."""


class MessageRefused(PermanentError):
    """Kafka will not take this message, however often it is sent: it is too large, or against a rule of its topic."""

    def __init__(self, detail: str, *, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason
        """A slug: `too-large` or `invalid-record`."""


class DocumentUnfit(PermanentError):
    """The document can't be indexed as it is; `str()` says why, without quoting it."""

    error_type = "document_unfit"


class KnowledgeBaseFull(PermanentError):
    """A KB has no room for a document; `str()` says which limit it is, and what to do."""

    error_type = "knowledge_base_full"


class Misconfigured(KbError):
    """A setting that can't be used; `str()` says which, why and what to change, and holds no secret."""


class WrongSurroundings(KbError):
    """Kafka or MongoDB is not set up as it must be; `str()` says what to change. The process waits for that."""


class RequestError(KbError):
    """An HTTP request that its sender can fix; becomes problem+json."""

    def __init__(  # every field of a problem is named
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        retry_after_s: float | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.extra = dict(extra or {})


class NotFound(RequestError):
    """The same answer whether an id is malformed, missing or another organization's."""

    def __init__(self, what: str) -> None:
        super().__init__(404, "not-found", f"No such {what} in this organization.")
