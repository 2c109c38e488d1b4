"""Refuses to start a service in production with settings that are fit for development only."""

import asyncio
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Final

import structlog

from kb_shared.errors import Misconfigured
from kb_shared.settings import CommonSettings, EmbeddingSettings, HttpSettings, ServerSettings

_WITHOUT_TLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT")

log = structlog.get_logger()


async def check_settings(settings: ServerSettings) -> None:
    """Check the settings of a service whose `KB_ENVIRONMENT` is `production`; accept those of any other.

    Raises:
        Misconfigured: with each setting that has to be changed.
    """
    if settings.environment != "production":
        return
    if refusals := [refusal async for refusal in _find_refusals(settings)]:
        raise Misconfigured("KB_ENVIRONMENT=production: " + "; ".join(refusals))


async def _find_refusals(settings: ServerSettings) -> AsyncIterator[str]:
    if isinstance(settings, HttpSettings):
        known = HttpSettings.model_fields["api_key_pepper"].default.get_secret_value()
        if known in settings.peppers:
            yield (
                "the public default is a pepper of API keys: set KB_API_KEY_PEPPER to a secret, the same in all"
                " services, and remove the default from KB_API_KEY_FORMER_PEPPERS and KB_API_KEY_NEXT_PEPPER"
            )
    if isinstance(settings, EmbeddingSettings) and settings.allow_private_addresses:
        yield "KB_ALLOW_PRIVATE_ADDRESSES lets organizations reach your own network: turn it off"
    if (
        isinstance(settings, CommonSettings)
        and settings.uses_kafka
        and settings.kafka_security_protocol in _WITHOUT_TLS
    ):
        for server in settings.kafka.split(","):
            if await _is_public(server.strip()):
                yield (
                    f"{server.strip()!r} of KB_KAFKA is a public address, and"
                    f" KB_KAFKA_SECURITY_PROTOCOL={settings.kafka_security_protocol} sends documents to it without"
                    " encryption: use SSL or SASL_SSL"
                )


async def _is_public(server: str) -> bool:
    """Return whether one of the addresses of `host:port` is public. A name that is not found has none."""
    host = server.rpartition(":")[0].strip("[]")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        log.warning("production.kafka_not_found", server=server)
        return False
    return any(ip_address(str(entry[4][0]).partition("%")[0]).is_global for entry in found)
