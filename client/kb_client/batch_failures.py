"""Documents of a batch that the API refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from kb_client.errors import ApiError, KbClientError
from kb_contracts.api.batches import RefusedEntry

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document that was refused, with the reason."""

    document_id: str
    status: int
    slug: str | None
    detail: str

    @classmethod
    def from_problem(cls, document_id: str, problem: RefusedEntry) -> Self:
        fields = "".join(f"; {each.field}: {each.message}" for each in problem.fields or ())
        return cls(document_id, problem.status, problem.type, problem.detail + fields)

    @classmethod
    def from_error(cls, document_id: str, error: ApiError) -> Self:
        return cls(document_id, error.status, error.slug, error.detail)


class BatchFailed(KbClientError):
    """Documents were refused; all others were accepted."""

    def __init__(self, failures: Sequence[FailedDocument], *, accepted_count: int) -> None:
        named = "; ".join(f"{each.document_id}: {each.detail}" for each in failures[:_NAMED])
        more = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
        super().__init__(f"{len(failures)} of {len(failures) + accepted_count} documents were refused: {named}{more}")
        self.failures = tuple(failures)
        self.accepted_count = accepted_count
