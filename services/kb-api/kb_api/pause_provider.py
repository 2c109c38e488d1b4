"""Pauses and resumes a provider for an organization. Documents that need it wait; searches and runs go on."""

from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.mongo import index_jobs, provider_pauses
from kb_shared.mongo.database import Database
from kb_shared.mongo.provider_pauses import ProviderPause
from kb_shared.mongo.stored_time import now
from kb_shared.providers.known_providers import LOCAL, PROVIDERS


async def pause_provider(database: Database, caller: Caller, provider: str) -> ProviderPause:
    """Let no document of the organization be embedded by the provider, from two seconds after now on.

    Raises NotFound.
    """
    _require_known(provider)
    return await provider_pauses.pause(
        database, ProviderPause(caller.organization_id, provider, paused_at=now(), paused_by=caller.key_id)
    )


async def resume_provider(database: Database, caller: Caller, provider: str) -> None:
    """Let the documents that wait be indexed at once. No change if the provider is not paused. Raises NotFound."""
    _require_known(provider)
    await provider_pauses.resume(database, caller.organization_id, provider)
    # After a crash here, they are tried again within a minute. Those of other paused providers wait again.
    await index_jobs.make_due(database, caller.organization_id, error_type="provider_paused")


def _require_known(provider: str) -> None:
    if provider not in PROVIDERS and provider != LOCAL:
        raise NotFound("LLM provider")
