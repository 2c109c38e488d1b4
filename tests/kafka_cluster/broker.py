import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kb_local.child import Child, execute
from kb_local.errors import UnusableServer
from kb_local.ports import LOOPBACK
from kb_local.server import Server
from tests.kafka_cluster.jars import java
from tests.kafka_cluster.server_properties import SCRAM, USERS, Listener, ListenerAddress, password_of

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
STARTED: Final = b"Kafka Server started"
HEAP: Final = "256m"


class KafkaBroker(Server):
    """One broker of Apache Kafka, which is a controller as well. Its data outlives the process."""

    def __init__(
        self, place: ListenerAddress, folder: Path, *, log: Path, class_path: str, properties: Mapping[str, str]
    ) -> None:
        """Describe the broker.

        Args:
            place: where it listens.
            folder: of its data and settings.
            log: file that its output is appended to.
            class_path: of the jars of Kafka.
            properties: its settings.
        """
        super().__init__(f"kafka-{place.number}", port=place.ports[Listener.PLAINTEXT], log=log)
        self.number = place.number
        self.settings: dict[str, str] = {}
        """Further settings, over those that it was made with; they count from the next launch on."""
        self.logs_what_is_allowed = False
        """True if the authorizer also logs allowed operations and their rules, and not only denied ones."""
        self._folder = folder
        self._class_path = class_path
        self._properties = dict(properties)
        self._log_before = 0
        self._launched_with: dict[str, str] = {}

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        return Path(self._properties["log.dirs"])

    @property
    def launched_with(self) -> Mapping[str, str]:
        """The `settings` of the process that runs."""
        return self._launched_with

    def format(self, cluster_id: str) -> None:
        """Prepare the empty folder of the data; blocks for a second or two.

        Raises:
            UnusableServer: Kafka does not take its settings.
        """
        self._write_properties()
        users = [f"--add-scram={each}=[name={user},password={password_of(user)}]" for user in USERS for each in SCRAM]
        arguments = ["format", "-t", cluster_id, "-c", str(self._properties_file), *users]
        done = subprocess.run(
            [*self._java("64m"), "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UnusableServer(
                f"Kafka refuses to format {self.data}:\n{done.stdout}{done.stderr}",
                remedy=f"read {self._properties_file}",
            )

    def _launch(self) -> Child:
        self._write_properties()
        self._launched_with = dict(self.settings)
        self._log_before = self.log.stat().st_size if self.log.exists() else 0
        return execute(
            [*self._java(HEAP), "kafka.Kafka", str(self._properties_file)],
            log=self.log,
            env={**os.environ, "LOG_DIR": str(self._folder)},
        )

    async def is_ready(self) -> bool:
        """Say whether this run of the broker takes part in the cluster; a port that is open says less."""
        with self.log.open("rb") as log:
            log.seek(self._log_before)
            return STARTED in log.read()

    @property
    def _properties_file(self) -> Path:
        return self._folder / "server.properties"

    def _write_properties(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in {**self._properties, **self.settings}.items()]
        self._properties_file.write_text("".join(lines))

    def _java(self, heap: str) -> list[str]:
        return [
            java(),
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            # The faster compiler: none of these processes lives long.
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={LOGGING}",
            *(["-Dauthorizer.level=debug"] if self.logs_what_is_allowed else []),
            *("-cp", self._class_path),
        ]
