"""Secrets of webhooks: encrypted as provider keys are, and encrypted again when that key has changed."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from kb_api.webhooks import webhook_rows
from kb_api.webhooks.signatures import create_secret
from kb_api.webhooks.webhook_rows import Webhook, WebhookKey, WebhookSecret
from kb_shared.errors import RequestError
from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import majority_reads
from kb_shared.secrets.key_ring import KeyRing, Unreadable

SIGNS_ON_FOR: Final = timedelta(days=1)
"""Time for which a secret that was replaced signs beside the new one."""

log = structlog.get_logger()


class WebhookSecrets:
    """Encrypts and decrypts secrets of webhooks."""

    def __init__(self, key_ring: KeyRing | None) -> None:
        """Construct it; without a key ring this deployment has no webhooks."""
        self._key_ring = key_ring

    def create(self, key: WebhookKey, *, now: datetime) -> tuple[str, WebhookSecret]:
        """Return a new secret, as its owner gets it and encrypted. Raises RequestError 503."""
        if self._key_ring is None:
            raise _not_available()
        secret = create_secret()
        return secret, WebhookSecret(self._key_ring.seal(secret, **_bound(key)), now)

    def open(self, webhook: Webhook, *, now: datetime) -> list[str]:
        """Return the secrets that sign now, the current one first. Raises Unreadable."""
        if self._key_ring is None:
            raise Unreadable("KB_PROVIDER_KEYS is not set")
        in_use = (each for each in webhook.secrets if each.expires_at is None or each.expires_at > now)
        return [self._key_ring.open(each.sealed, **_bound(webhook.key)) for each in in_use]

    def open_for_request(self, webhook: Webhook, *, now: datetime) -> list[str]:
        """Return what `open` does. Raises RequestError 503 if that is not possible."""
        try:
            return self.open(webhook, now=now)
        except Unreadable:
            raise _not_available() from None

    async def reseal(self, database: Database) -> None:
        """Encrypt with the first key of the ring all secrets that were encrypted with another one."""
        if self._key_ring is None:
            return
        async with majority_reads(database) as majority:
            sealed_otherwise = await webhook_rows.find_sealed_with_other_key(majority, self._key_ring.current)
        for webhook in sealed_otherwise:
            try:
                again = [self._seal_again(self._key_ring, webhook.key, each) for each in webhook.secrets]
            except Unreadable:
                log.warning("webhook.secret_unreadable", webhook_id=webhook.webhook_id, remedy="rotate its secret")
                continue
            await webhook_rows.replace_secrets(database, webhook, again)
            log.info("webhook.secret_resealed", webhook_id=webhook.webhook_id)

    def _seal_again(self, key_ring: KeyRing, key: WebhookKey, secret: WebhookSecret) -> WebhookSecret:
        opened = key_ring.open(secret.sealed, **_bound(key))
        return replace(secret, sealed=key_ring.seal(opened, **_bound(key)))


def rotate(webhook: Webhook, new: WebhookSecret, *, now: datetime) -> tuple[WebhookSecret, ...]:
    """Return the secrets after a rotation: the new one, and for a day the one that it replaces."""
    current = next(each for each in webhook.secrets if each.expires_at is None)
    return new, replace(current, expires_at=now + SIGNS_ON_FOR)


def _not_available() -> RequestError:
    return RequestError(
        503,
        "provider-keys-not-available",
        "This deployment can't encrypt or decrypt secrets of organizations; ask your operator to set KB_PROVIDER_KEYS.",
    )


def _bound(key: WebhookKey) -> dict[str, str]:
    return {"organization_id": key.organization_id, "provider": f"webhook {key.webhook_id}"}
