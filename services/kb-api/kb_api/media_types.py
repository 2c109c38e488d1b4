"""Chooses the media type of an answer by the `Accept` header of the request (RFC 9110). Pure."""

from collections.abc import Sequence
from typing import Final

from kb_shared.errors import RequestError

_MOST_RANGES: Final = 50
"""Number of media ranges of a header that are looked at."""


def choose_media_type(accept: str | None, *, offered: Sequence[str]) -> str:
    """Return the media type that the caller likes best; of equal ones the first that is `offered`.

    Raises:
        RequestError: 406 `not-acceptable`.
    """
    if accept is None or not accept.strip():
        return offered[0]
    weights = _weights(accept)
    best = max(offered, key=lambda media_type: _weight_of(media_type, weights))
    if not _weight_of(best, weights):
        raise RequestError(
            406, "not-acceptable", f"This call answers with one of {', '.join(offered)}: send one of them as `Accept`."
        )
    return best


def _weights(accept: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for media_range in accept.split(",")[:_MOST_RANGES]:
        name, *parameters = (part.strip().lower() for part in media_range.split(";"))
        weights[name] = next((_weight(each[2:]) for each in parameters if each.startswith("q=")), 1.0)
    return weights


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 0 <= weight <= 1 else 1.0


def _weight_of(media_type: str, weights: dict[str, float]) -> float:
    group = media_type.partition("/")[0]
    # The most specific range decides, whatever its weight.
    return next((weights[each] for each in (media_type, f"{group}/*", "*/*") if each in weights), 0.0)
