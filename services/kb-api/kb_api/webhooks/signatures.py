"""Signs requests as the Standard Webhooks specification says (https://www.standardwebhooks.com)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def create_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def sign(body: bytes, *, message_id: str, timestamp_s: int, secrets_in_use: Sequence[str]) -> dict[str, str]:
    """Return the headers of a request, with one signature for each secret."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    signatures = [_signature(signed, secret) for secret in secrets_in_use]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(signatures),
    }


def _signature(signed: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
