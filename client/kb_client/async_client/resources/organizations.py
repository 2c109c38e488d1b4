from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.organizations import OrganizationDeletionView, OrganizationSettingsView


class AsyncOrganizations(AsyncResource):
    """Settings and deletion of the organization."""

    @operation
    def get_settings(self) -> ApiCall[OrganizationSettingsView]:
        """Return the settings that the organization changes itself."""
        return ApiCall("GET", "/settings", OrganizationSettingsView)

    @operation
    def put_settings(self, *, strict_metadata: bool) -> ApiCall[OrganizationSettingsView]:
        """Replace the settings.

        Args:
            strict_metadata: whether metadata that can't be stored refuse their document, instead of being left out.
        """
        return ApiCall("PUT", "/settings", OrganizationSettingsView, body={"strict_metadata": strict_metadata})

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
