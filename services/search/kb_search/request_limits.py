"""How many searches and runs a key and an organization may ask for a minute, on all replicas together."""

from typing import Final, Literal

from kb_search.settings import Settings
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket

BURST_S: Final = 10.0
"""Of its rate may come at once."""

Operation = Literal["search", "run"]


class RequestLimits:
    """Refuses at once; nobody waits."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._limits = {
            "search": (settings.searches_per_minute_of_key, settings.searches_per_minute_of_organization),
            "run": (settings.runs_per_minute_of_key, settings.runs_per_minute_of_organization),
        }

    async def take_search(self, caller: Caller) -> None:
        """Raises RequestError 429."""
        await self._take("search", caller)

    async def take_run(self, caller: Caller) -> None:
        """Raises RequestError 429."""
        await self._take("run", caller)

    async def _take(self, operation: Operation, caller: Caller) -> None:
        of_key, of_organization = self._limits[operation]
        organization_id = caller.organization_id
        key = Bucket(organization_id, f"{operation}/key/{caller.key_id}", of_key)
        await self._take_one(key, "key")
        try:
            await self._take_one(Bucket(organization_id, f"{operation}/organization", of_organization), "organization")
        except RequestError:
            # What was refused is not done, and counts for nobody.
            if key.limited:
                await rate_limits.refund(self._database, key, requests=1)
            raise

    async def _take_one(self, bucket: Bucket, whose: str) -> None:
        if not bucket.limited:
            return
        # A debt that nobody waits out is a burst.
        reservation = await rate_limits.reserve(self._database, bucket, requests=1, tokens=0, longest_wait_s=BURST_S)
        if not reservation.made:
            raise RequestError(
                429,
                "too-many-requests",
                f"The limit of {bucket.requests_per_minute} a minute of this {whose} is used up; "
                "try again after Retry-After.",
                retry_after_s=reservation.wait_s - BURST_S,
            )
