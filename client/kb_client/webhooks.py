"""Verifies requests that a webhook sent, as the Standard Webhooks specification says. Needs the standard library only.

event = verify(request.body, request.headers, secrets=[os.environ["WEBHOOK_SECRET"]])
"""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from kb_client.errors import KbClientError

TOLERANCE_S: Final = 300.0
"""Greatest age of a request, so that one that was recorded can't be sent again later."""
_PREFIX: Final = "whsec_"
_VERSION: Final = "v1,"


class WebhookNotVerified(KbClientError):
    """The request was not signed with the secret, or too long ago: answer 401, and do nothing with its content."""


def verify(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secrets: Sequence[str],
    tolerance_s: float = TOLERANCE_S,
    now_s: float | None = None,
) -> dict[str, Any]:
    """Return the event of a request whose signature is right.

    Deliveries may come twice: the header `webhook-id`, the `id` of the event, is the same then.

    Args:
        body: content of the request as it was received.
        headers: of the request. Their names may be in upper or lower case.
        secrets: secrets of the webhook, `whsec_...`; two while one is being replaced.
        tolerance_s: greatest difference between the clocks, with the time on the way.
        now_s: Unix time; by default that of this machine.

    Raises:
        WebhookNotVerified: the request is not from this webhook, or too old.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp = given["webhook-id"], given["webhook-timestamp"]
        age_s = (time.time() if now_s is None else now_s) - int(timestamp)
        signatures = given["webhook-signature"].split()
    except (KeyError, ValueError):
        raise WebhookNotVerified("the headers of a webhook are missing or have another form") from None
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = [_signature(signed, secret) for secret in secrets]
    if not any(hmac.compare_digest(each.encode(), other.encode()) for each in signatures for other in expected):
        raise WebhookNotVerified("no signature is right: is this the secret of this webhook?")
    if abs(age_s) > tolerance_s:
        raise WebhookNotVerified(f"it was signed {age_s:.0f} s ago, by the clock of this machine")
    return cast("dict[str, Any]", json.loads(body))


def _signature(signed: bytes, secret: str) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a secret is not `whsec_` and base64") from None
    return _VERSION + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
