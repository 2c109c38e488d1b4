"""Encrypts the provider keys of organizations with AES-256-GCM, bound to the organization and the provider."""

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kb_shared.errors import PermanentError, ProviderKeyMissing

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class UnusableKeyRing(PermanentError):
    """Setting that is not `<key id>:<base64 of 32 bytes>`, joined by commas. `str()` quotes no key."""


class Unreadable(ProviderKeyMissing):
    """Provider key that is damaged, encrypted with a missing key, or for another organization or provider."""


@dataclass(frozen=True, slots=True)
class Sealed:
    key_id: str
    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Ring of keys: the first one encrypts, all decrypt. To rotate, put a new key first, remove the old one later."""

    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def parse(cls, setting: str) -> "KeyRing":
        """Parse `<key id>:<base64>,<key id>:<base64>`.

        Raises:
            UnusableKeyRing: the setting has another form.
        """
        keys: dict[str, bytes] = {}
        for entry in setting.split(","):
            key_id, _, encoded = entry.strip().partition(":")
            try:
                key = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if not key_id or key_id in keys or len(key) != _KEY_BYTES:
                raise UnusableKeyRing(
                    "KB_PROVIDER_KEYS must be <key id>:<base64 of 32 random bytes>, several joined by commas"
                )
            keys[key_id] = key
        return cls(keys)

    @property
    def current(self) -> str:
        """Return the id of the key that encrypts."""
        return next(iter(self.keys))

    def seal(self, secret: str, *, organization_id: str, provider: str) -> Sealed:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        bound = _bound_to(organization_id, provider, self.current)
        return Sealed(self.current, nonce, AESGCM(self.keys[self.current]).encrypt(nonce, secret.encode(), bound))

    def open(self, sealed: Sealed, *, organization_id: str, provider: str) -> str:
        """Decrypt a sealed value. Raises Unreadable."""
        key = self.keys.get(sealed.key_id)
        if key is None:
            raise Unreadable(f"a provider's key is sealed with {sealed.key_id!r}, which is not in KB_PROVIDER_KEYS")
        bound = _bound_to(organization_id, provider, sealed.key_id)
        try:
            return AESGCM(key).decrypt(sealed.nonce, sealed.ciphertext, bound).decode()
        except InvalidTag:
            raise Unreadable(f"the key of {provider!r} is damaged or not this organization's") from None


def _bound_to(organization_id: str, provider: str, key_id: str) -> bytes:
    return f"{organization_id}|{provider}|{key_id}".encode()
