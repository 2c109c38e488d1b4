from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.pushed_folders import PushedFolderView


class AsyncPushedFolders(AsyncResource):
    """Pushed folders: which folder, on which machine, documents come from."""

    @operation
    def get(self, name: str) -> ApiCall[PushedFolderView]:
        """Return the place of a pushed folder."""
        return ApiCall("GET", "/pushed-folders/{name}", PushedFolderView, ids={"name": name})

    @operation
    def put(
        self, name: str, *, host: str, path: str, is_named: bool = False, replaces: int | None = None
    ) -> ApiCall[PushedFolderView]:
        """Set the place of a pushed folder.

        Args:
            name: what the ids of its documents begin with, before the first dot.
            host: name of the machine.
            path: absolute path of the folder.
            is_named: whether a person has named it, so that it is the same one wherever it is.
            replaces: `version` of the place that may be replaced; None if there must be none yet.
        """
        body = {"host": host, "path": path, "is_named": is_named, "replaces": replaces}
        return ApiCall("PUT", "/pushed-folders/{name}", PushedFolderView, ids={"name": name}, body=body)
