"""Carries out the entries of a batch one after the other, so that those about the same resource keep their order.

After a failure of the database the others are not tried: each would wait for it, and the request would take minutes.

A request that takes a batch over, after its process died or was stopped for long, continues after the entries that
were carried out. The one that lost the batch stops at its next change.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from kb_contracts.api.batches import RefusedEntry
from kb_contracts.identifiers import is_identifier
from kb_contracts.reasons.field_reasons import reasons, why_not
from kb_shared import failpoints
from kb_shared.errors import KbError, Parked, RequestError, TransientError
from kb_shared.http.changes import batch_entry, find_outcome
from kb_shared.http.idempotency import KEY_IN_USE
from kb_shared.http.problems import as_request_error, invalid
from kb_shared.mongo.database import mongo_errors

_OBJECT: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])

UncheckedEntry: TypeAlias = Mapping[str, Any]
Entry = TypeVar("Entry", bound=BaseModel)
Outcome = TypeVar("Outcome", bound=BaseModel)


async def carry_out_entries(
    sent: Sequence[Any],
    *,
    outcome_model: type[Outcome],
    parse: Callable[[UncheckedEntry], Entry],
    carry_out: Callable[[Entry], Awaitable[Outcome]],
    refuse: Callable[[UncheckedEntry, RefusedEntry], Outcome],
) -> list[Outcome]:
    """Return what became of each entry, in their order.

    Args:
        sent: entries that nothing is known of.
        outcome_model: model of what became of an entry.
        parse: checks an entry. Raises RequestError.
        carry_out: carries an entry out, as a whole or not at all.
        refuse: makes the outcome of an entry that has a problem.

    Raises:
        RequestError: 409 `idempotency-key-in-use`: another request has taken the batch over.
    """
    outcomes: list[Outcome] = []
    failure: KbError | None = None
    for position, given in enumerate(sent):
        each: UncheckedEntry = given if isinstance(given, dict) else {}
        if (known := find_outcome(position)) is not None:
            outcomes.append(outcome_model.model_validate_json(known))
            continue
        try:
            if each is not given:
                raise invalid(why_not(_OBJECT, given), whole="value")
            entry = parse(each)
            if failure is not None:
                raise failure
            with mongo_errors(), batch_entry(position):
                outcomes.append(await carry_out(entry))
            await failpoints.reach("batch.after_entry")
        except RequestError as error:
            if error.slug == KEY_IN_USE:
                raise
            outcomes.append(refuse(each, _problem(error)))
        except (TransientError, Parked) as error:
            failure = error
            outcomes.append(refuse(each, _problem(as_request_error(error))))
    return outcomes


def parse_entry(model: type[Entry], sent: UncheckedEntry) -> Entry:
    """Check an entry. Raises RequestError 422 `validation-error`."""
    try:
        return model.model_validate(sent)
    except ValidationError as error:
        raise invalid(reasons(error, model), whole="value") from None


def usable_id(sent: UncheckedEntry, field: str) -> str | None:
    """Return the id that an entry has in `field`, if it can be repeated in the answer."""
    given = sent.get(field)
    return given if isinstance(given, str) and is_identifier(given) else None


def _problem(error: RequestError) -> RefusedEntry:
    return RefusedEntry(status=error.status, type=error.slug, detail=error.detail, fields=error.extra.get("fields"))
