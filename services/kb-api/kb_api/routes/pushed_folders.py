from kb_api import pushed_folders
from kb_api.dependencies import Database, Settings, Writer
from kb_api.pushed_folders import PushedFolder
from kb_contracts.api.pushed_folders import PushedFolderView, PutPushedFolder
from kb_contracts.identifiers import Identifier
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.problems import responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo.stored_time import now

router = organization_router("pushed folders")


@router.get(
    "/pushed-folders/{name}",
    operation_id="pushed_folders.get",
    summary="Get the place of a pushed folder",
    response_model=PushedFolderView,
)
async def get(database: Database, caller: Writer, name: Identifier) -> PushedFolderView:
    """Return the machine and the path that documents were pushed from whose ids begin with this name and a dot."""
    found = await pushed_folders.find(database, caller.organization_id, name=name)
    if found is None:
        raise NotFound("pushed folder")
    return _view(found)


@router.put(
    "/pushed-folders/{name}",
    operation_id="pushed_folders.put",
    summary="Set the place of a pushed folder",
    response_model=PushedFolderView,
    responses=responses("concurrent-change", "quota-exceeded"),
)
async def put(
    database: Database, settings: Settings, caller: Writer, name: Identifier, *, body: PutPushedFolder
) -> PushedFolderView:
    """Say where the documents come from whose ids begin with this name and a dot.

    Of two folders with the same name that are pushed at the same time, one gets the name, and the other one is told.
    """
    if body.replaces is None:
        await require_quota(
            lambda: pushed_folders.count(database, caller.organization_id),
            settings.max_tags,
            things="tags or pushed folders",
            setting="KB_MAX_TAGS",
            remedy="Push under a name that it has already",
        )
    wanted = PushedFolder(
        caller.organization_id,
        name,
        host=body.host,
        path=body.path,
        is_named=body.is_named,
        first_pushed_at=now(),
    )
    stored = await pushed_folders.put(database, wanted, replaces=body.replaces)
    if stored is None:
        raise RequestError(
            409, "concurrent-change", "Another folder got this name meanwhile; read it again and decide again."
        )
    return _view(stored)


def _view(found: PushedFolder) -> PushedFolderView:
    return PushedFolderView(
        name=found.name,
        host=found.host,
        path=found.path,
        is_named=found.is_named,
        first_pushed_at=found.first_pushed_at,
        version=found.version,
    )
