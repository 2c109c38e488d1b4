"""What every route and use case of kb-api works with."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from kb_api.life_cycle import LifeCycle
from kb_api.message_limits import MessageLimits
from kb_api.settings import ApiSettings
from kb_api.stored_bytes import StoredBytes
from kb_shared.concurrency.keyed_locks import KeyedLocks
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.http.authentication import Caller
from kb_shared.http.request_limits import LimitedCallerWith
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.secrets.key_ring import KeyRing


@dataclass(frozen=True, slots=True)
class Services:
    settings: ApiSettings
    database: Database
    embedder: Embedder
    key_ring: KeyRing | None
    life_cycle: LifeCycle
    stored_bytes: StoredBytes
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    message_limits: MessageLimits = field(default_factory=MessageLimits)

    @property
    def models(self) -> OrganizationModels:
        return self.embedder.models


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Api = Annotated[Services, Depends(_services)]
Reader = Annotated[Caller, Depends(LimitedCallerWith(Scope.READ))]
Writer = Annotated[Caller, Depends(LimitedCallerWith(Scope.WRITE))]
Admin = Annotated[Caller, Depends(LimitedCallerWith(Scope.ADMIN))]
