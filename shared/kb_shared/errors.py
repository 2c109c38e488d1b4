"""Defines all errors as one tree. The branch says what the receiver does next.

KbError
├── TransientError           may succeed later: retry, not before `retry_after_s`
│   ├── ProviderUnavailable  the provider timed out, limits us, or is down
│   ├── SearchUnavailable    MongoDB answers, but has no Atlas Search
│   ├── OutcomeUnknown       a commit was not acknowledged: it may be done, or may be done later
│   ├── TimedOut             no answer in time: MongoDB is away or overloaded
│   │   └── TransactionExpired  MongoDB aborted a transaction after its time limit
│   └── WriteConflicts       other transactions held the rows in each try
├── Parked                   the provider of the organization is out, or a limit is used up: wait without counting an
│                            attempt
│   ├── ProviderPaused       the organization has paused the provider of the model
│   ├── OtherVectors         another model answers under the name of the KB's: their vectors can't be compared
│   ├── KnowledgeBaseNotReady  the embedding model of the KB has not been asked for its dimensions yet
│   ├── BudgetExhausted      the hard budget of the organization has no room for the work this month
│   └── UnknownPrice         the organization has a budget in US dollars, and the price of the model is not known
├── PermanentError           a retry changes nothing: mark the work as failed, with the reason
│   ├── ProviderRefused      the provider does not accept this key, model or text
│   │   ├── ProviderKeyMissing  no key for the provider
│   │   ├── ProviderKeyRefused  the key is wrong, lacks a permission, or its quota is used up
│   │   ├── ProviderIncompatible  its server does not speak OpenAI's API: correct the address
│   │   ├── AnswerWithheld   the provider, or the model, refuses to answer, or to end its answer
│   │   └── BatchRefused     one of the texts, or their number: retry with fewer until the text is found
│   │       └── ContextExceeded  prompt and answer are longer than the context of a chat model
│   ├── UnknownModel         no embedding model of this deployment has this name
│   ├── ModelNotAllowed      the deployment does not allow this chat model
│   ├── MessageRefused       Kafka refuses this message permanently
│   ├── DocumentUnfit        the document itself can't be indexed (too many chunks, ...)
│   │   └── SensitiveDocument  its text contains a credential, and the KB refuses such texts
│   └── KnowledgeBaseFull    the KB has reached its limit of documents or chunks
├── Misconfigured            a setting can't be used: the process ends, and an operator changes it
│   └── VersionTooOld        newer code has changed the stored data: the process ends, and an operator starts that code
├── InfrastructureNotReady   Kafka or MongoDB is not set up correctly: wait, and log what an operator has to change
└── RequestError             the HTTP caller has to fix it: carries status, slug and detail
    └── NotFound             missing, malformed or of another organization: always the same 404

A message that can't be used is `kb_contracts.errors.Rejected`: it goes to the dead letters with its reason.
"""

from collections.abc import Mapping, Sequence


class KbError(Exception):
    """Base of all errors that this system raises."""

    @property
    def kind(self) -> str:
        """Return a stable name for rows and metric labels: that of the class, never a text."""
        return type(self).__name__


class TransientError(KbError):
    """Failure of another system that is likely to pass."""

    def __init__(self, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ProviderUnavailable(TransientError):
    """Timeout, 408, 429 or 5xx of a provider."""

    def __init__(self, detail: str, *, error_type: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)
        self.error_type = error_type


class SearchUnavailable(TransientError):
    """MongoDB without search commands: it is not Atlas, or search is not set up. An operator has to set it up."""


class OutcomeUnknown(TransientError):
    """Transaction that may be committed or not. Its work may be done already when it is repeated."""


class TimedOut(TransientError):
    """Missing answer: MongoDB is away, or MongoDB or this process is overloaded."""


class TransactionExpired(TimedOut):
    """Transaction that MongoDB aborted after its time limit."""


class WriteConflicts(TransientError):
    """Conflict with transactions that wrote the same rows, or whose process died and still hold them."""


class Parked(KbError):
    """Work that waits for a provider, a key or a budget of its organization, without using up an attempt."""

    def __init__(self, detail: str, *, error_type: str, retry_after_s: float) -> None:
        super().__init__(detail)
        self.error_type = error_type
        self.retry_after_s = retry_after_s


class ProviderPaused(Parked):
    """Work for a provider that its organization has paused. `str()` says how it is resumed."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail, error_type="provider_paused", retry_after_s=retry_after_s)


class OtherVectors(Parked):
    """Work for a KB whose model, as it is reached now, gives other vectors than those that the KB has."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"the vectors of this knowledge base came from another server or model than {model!r} means now, and can't "
            "be compared with its vectors: store the former address of the provider again, or create another "
            "knowledge base with the same tags",
            error_type="other_vectors",
            retry_after_s=60,
        )


class KnowledgeBaseNotReady(Parked):
    """Work for a KB of which it is not known yet how many dimensions its vectors have."""

    def __init__(self) -> None:
        super().__init__(
            "the knowledge base waits for an answer of its embedding model",
            error_type="knowledge_base_not_ready",
            retry_after_s=1,
        )


class BudgetExhausted(Parked):
    """Work that the hard budget has no room for. None of it has begun."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail, error_type="budget_exhausted", retry_after_s=retry_after_s)


class UnknownPrice(Parked):
    """Work of unknown price for an organization with a budget in US dollars. None of it has begun."""

    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail, error_type="unknown_price", retry_after_s=retry_after_s)


class PermanentError(KbError):
    """Failure that a retry does not change."""

    error_type: str = "permanent"


class ProviderRefused(PermanentError):
    """Key, model or text that the provider refuses permanently, or an answer that can't be read."""

    def __init__(self, detail: str, *, error_type: str) -> None:
        super().__init__(detail)
        self.error_type = error_type


class ProviderKeyMissing(ProviderRefused):
    """Missing key of a provider. `str()` names the environment variables to set."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, error_type="provider_key_missing")


class ProviderKeyRefused(ProviderRefused):
    """Key that is wrong, lacks a permission, or whose quota is used up. Work waits until the key is replaced."""


class ProviderIncompatible(ProviderRefused):
    """Server that does not speak OpenAI's API, or not at this address. `str()` says what it answers instead."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, error_type="provider_incompatible")


class AnswerWithheld(ProviderRefused):
    """Answer of a chat model that a filter of the provider, or the model itself, holds back. It was paid for."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, error_type="answer_withheld")


class BatchRefused(ProviderRefused):
    """Batch that is too large, or contains a text that is too long or not allowed. A single text is the cause."""


class ContextExceeded(BatchRefused):
    """Prompt and answer of a chat model that are longer than its context. `str()` says how long they are."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, error_type="text_refused")


class UnknownModel(PermanentError):
    """Name that no embedding model of this deployment has."""

    error_type = "unknown_model"


class ModelNotAllowed(PermanentError):
    """Chat model that is not in the deployment's list of allowed ones."""

    error_type = "model_not_allowed"

    def __init__(self, detail: str, *, allowed: Sequence[str]) -> None:
        super().__init__(detail)
        self.allowed = tuple(allowed)
        """Names and patterns of the allowed models."""


class MessageRefused(PermanentError):
    """Message that Kafka refuses permanently: it is too large, or breaks a rule of its topic."""

    def __init__(self, detail: str, *, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason
        """Slug: `too-large` or `invalid-record`."""


class DocumentUnfit(PermanentError):
    """Document that can't be indexed. `str()` says why, without quoting it."""

    error_type = "document_unfit"


class SensitiveDocument(DocumentUnfit):
    """Document with a credential, for a KB that refuses such. `str()` names its kind and line, without quoting it."""

    error_type = "sensitive_content"

    def __init__(self, detail: str, *, is_in_text: bool) -> None:
        super().__init__(detail)
        self.is_in_text = is_in_text
        """True if it is in the text, and not only in the name or the metadata."""


class KnowledgeBaseFull(PermanentError):
    """KB that has no room for a document. `str()` names the limit and what to do."""

    error_type = "knowledge_base_full"


class Misconfigured(KbError):
    """Setting that can't be used. `str()` says which one, why, and what to change; it contains no secret."""


class VersionTooOld(Misconfigured):
    """Stored data that this version of the code can't work with. `str()` says which version can."""


class InfrastructureNotReady(KbError):
    """Kafka or MongoDB that is not set up correctly. `str()` says what to change; the process waits for it."""


class RequestError(KbError):
    """HTTP request that its sender can fix. Becomes problem+json."""

    def __init__(
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
    """Id that is malformed, missing or of another organization, with the same answer for each."""

    def __init__(self, what: str) -> None:
        super().__init__(404, "not-found", f"No such {what} in this organization.")
