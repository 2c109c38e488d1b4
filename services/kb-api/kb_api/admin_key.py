"""Creates the first API key of an organization from the settings; that key can create the others."""

import re
from typing import Final

import structlog

from kb_api.settings import ApiSettings
from kb_shared.errors import PermanentError
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import now

_WHOLE_KEY: Final = re.compile(r"kb_([A-Za-z0-9]{1,64})_([A-Za-z0-9_-]{16,})")

_log = structlog.get_logger()


async def ensure_admin_key(database: Database, settings: ApiSettings) -> None:
    """Create the key of the settings unless it exists. An existing key does not change.

    Raises:
        PermanentError: the settings can't be used.
    """
    if settings.bootstrap_admin_key is None:
        return
    whole_key = settings.bootstrap_admin_key.get_secret_value()
    shape = _WHOLE_KEY.fullmatch(whole_key)
    if shape is None or not settings.bootstrap_organization:
        raise PermanentError(
            "KB_BOOTSTRAP_ADMIN_KEY must be kb_<key id>_<secret of at least 16 characters>, and "
            "KB_BOOTSTRAP_ORGANIZATION must name its organization"
        )
    key = ApiKey(
        key_id=shape[1],
        organization_id=settings.bootstrap_organization,
        name="bootstrap",
        scopes=frozenset({Scope.ADMIN}),
        created_at=now(),
        expires_at=None,
        revoked_at=None,
    )
    if await api_keys.insert(database, key, whole_key=whole_key, pepper=settings.peppers.current):
        _log.info("api_key.bootstrapped", key_id=key.key_id, organization_id=key.organization_id)
        return
    found = await api_keys.authenticate(database, whole_key, peppers=settings.peppers)
    if found is None or found.organization_id != key.organization_id:
        # The operator may have changed the secret: the old one is still valid, and the new one does not work.
        _log.warning(
            "api_key.bootstrap_ignored",
            key_id=key.key_id,
            reason="a key with this id exists, with another secret, pepper or organization, or is revoked",
            remedy="give KB_BOOTSTRAP_ADMIN_KEY another key id, and revoke the key that exists",
        )
