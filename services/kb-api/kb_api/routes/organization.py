from typing import Annotated

from fastapi import Query

from kb_api import organization_deletions
from kb_api.delete_organization import request_deletion
from kb_api.dependencies import Admin, Database, OrganizationDeletions, Reader
from kb_api.organization_deletions import OrganizationDeletion
from kb_contracts.api.organizations import (
    OrganizationDeletionView,
    OrganizationSettingsView,
    PutOrganizationSettings,
)
from kb_shared.errors import NotFound
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.mongo import organizations
from kb_shared.mongo.organizations import OrganizationSettings

router = organization_router("organizations")


@router.get("/settings", summary="Get the settings", operation_id="organizations.get_settings")
async def get_settings(database: Database, caller: Reader) -> OrganizationSettingsView:
    """Return the settings that the organization changes itself."""
    found = await organizations.find_settings(database, caller.organization_id)
    return OrganizationSettingsView(strict_metadata=found.strict_metadata)


@router.put("/settings", summary="Replace the settings", operation_id="organizations.put_settings")
async def put_settings(database: Database, caller: Admin, body: PutOrganizationSettings) -> OrganizationSettingsView:
    """Replace the settings. Documents that were stored before stay as they are."""
    settings = OrganizationSettings(strict_metadata=body.strict_metadata)
    await organizations.set_settings(database, caller.organization_id, settings)
    return OrganizationSettingsView(strict_metadata=settings.strict_metadata)


@router.delete("", summary="Delete the organization", status_code=202, operation_id="organizations.delete")
async def delete(
    database: Database,
    deletions: OrganizationDeletions,
    caller: Admin,
    confirm: Annotated[
        str | None, Query(max_length=128, description="Id of the organization once more, because nothing is kept.")
    ] = None,
) -> OrganizationDeletionView:
    """Delete the organization with all its knowledge bases, documents and keys. This can't be undone.

    All keys but this one are revoked at once. `GET /deletion` shows how far it is, until this key is deleted, too.
    """
    if confirm != caller.organization_id:
        raise invalid_field("confirm", "must be the id of the organization, which is deleted with everything")
    requested = await request_deletion(database, caller)
    deletions.signal.wake()
    return _view(requested)


@router.get("/deletion", summary="Get the progress of the deletion", operation_id="organizations.get_deletion")
async def get_deletion(database: Database, caller: Admin) -> OrganizationDeletionView:
    """Return how far the deletion of the organization is; 404 if none was requested, 401 once it is done."""
    found = await organization_deletions.find(database, caller.organization_id)
    if found is None:
        raise NotFound("deletion")
    return _view(found)


def _view(deletion: OrganizationDeletion) -> OrganizationDeletionView:
    return OrganizationDeletionView(
        organization_id=deletion.organization_id,
        state=deletion.state.value,
        step=deletion.step,
        requested_at=deletion.requested_at,
        requested_by=deletion.requested_by,
        deleted=dict(deletion.deleted),
        finished_at=deletion.finished_at,
    )
