import os
from collections.abc import Mapping
from pathlib import Path

from kb_local.child import Child
from kb_local.ports import LOOPBACK
from kb_local.python_server import answers_ok
from kb_local.server import Server
from kb_local.zygote import Zygote


class Service(Server):
    """One of the system's own processes, forked from the zygote: `main()` of `<package>.__main__`."""

    def __init__(
        self, name: str, package: str, *, zygote: Zygote, port: int, log: Path, env: Mapping[str, str]
    ) -> None:
        """Describe the service.

        Args:
            name: in status and messages, such as `kb-api`.
            package: such as `kb_api`.
            zygote: runs already when the service is started.
            port: of its HTTP server.
            log: file that its output is appended to.
            env: its settings; what else this process has in its environment comes along, except other `KB_` settings.
        """
        super().__init__(name, port=port, log=log)
        self.package = package
        self.env = dict(env)
        self._zygote = zygote

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _launch(self) -> Child:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KB_")}
        own = {"KB_HTTP_HOST": LOOPBACK, "KB_HTTP_PORT": str(self.port)}
        return self._zygote.fork(f"{self.package}.__main__", env={**inherited, **self.env, **own}, log=self.log)

    async def is_ready(self) -> bool:
        return await answers_ok(f"{self.url}/readyz")
