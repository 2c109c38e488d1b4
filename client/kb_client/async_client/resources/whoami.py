from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.whoami import WhoAmI


class AsyncWhoAmI(AsyncResource):
    """The API key of this client."""

    @operation
    def get(self) -> ApiCall[WhoAmI]:
        """Return organization, scopes and limits of the key."""
        return ApiCall("GET", "/v0/whoami", WhoAmI)
