from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.organizations import OrganizationDeletionView


class AsyncOrganizations(AsyncResource):
    """Deletion of the organization."""

    @operation
    def delete(self, *, confirm: str | None = None) -> ApiCall[OrganizationDeletionView]:
        """Delete the organization with all its data.

        Args:
            confirm: id of the organization.
        """
        return ApiCall("DELETE", "", OrganizationDeletionView, query={"confirm": confirm})

    @operation
    def get_deletion(self) -> ApiCall[OrganizationDeletionView]:
        """Return how far the deletion has come."""
        return ApiCall("GET", "/deletion", OrganizationDeletionView)
