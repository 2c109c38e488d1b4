"""Seals small values so that browsers can keep them: only a holder of the secret can read, change or make one."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Seal:
    """Seals values of one purpose. A value sealed for one purpose can't be opened for another."""

    def __init__(self, secrets: Sequence[str], *, purpose: str, lifetime_s: int) -> None:
        """Derive the keys.

        Args:
            secrets: each opens what it sealed; the first one seals.
            purpose: of the values.
            lifetime_s: time after which a sealed value can't be opened.
        """
        self._fernet = MultiFernet([_fernet(secret, purpose) for secret in secrets])
        self._lifetime_s = lifetime_s

    def close(self, value: dict[str, Any]) -> str:
        """Return the sealed value, in characters that URLs and cookies can contain."""
        return self._fernet.encrypt(json.dumps(value).encode()).decode()

    def open(self, sealed: str) -> dict[str, Any] | None:
        """Return the value, or None if it is too old or was not sealed here."""
        try:
            value: dict[str, Any] = json.loads(self._fernet.decrypt(sealed.encode(), ttl=self._lifetime_s))
        except (InvalidToken, UnicodeEncodeError):
            return None
        return value


def _fernet(secret: str, purpose: str) -> Fernet:
    key = HKDF(SHA256(), 32, salt=None, info=f"kb-console {purpose}".encode()).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(key))
