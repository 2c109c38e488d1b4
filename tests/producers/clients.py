"""The programs that publish and read with clients of other projects, each installed in an environment of its own."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.kafka_cluster import jars

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
PYTHON: Final = ROOT / ".venv-producers/bin/python"
NODE: Final = HERE / "node"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
WITHIN_S: Final = 300.0
"""Far more than a run takes: a client that waits for ever is a failure, a busy machine is none."""

Command = Sequence[str | Path]


@cache
def java_folder() -> Path:
    """Compile the Java program and return the folder of its class."""
    return compile_java(HERE / "java/Publish.java", ROOT / ".kafka/producers")


def compile_java(source: Path, folder: Path) -> Path:
    execute(["javac", "-cp", jars.class_path(), "-d", folder, source])
    return folder


def java_command(folder: Path, name: str) -> Command:
    """Return the command that runs a compiled class with what is in the jars of Kafka: its client, codecs and JSON."""
    return [jars.java(), "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{folder}:{jars.class_path()}", name]


@cache
def go_program() -> Path:
    """Build the Go program and return its path."""
    return build_go(HERE / "go", ROOT / ".kafka/producers/franz-go")


def build_go(folder: Path, program: Path) -> Path:
    # With this, `go.sum` decides what is right, and nothing else is fetched.
    execute(["go", "build", "-mod=readonly", "-o", program, "."], folder=folder)
    return program


@cache
def node_modules() -> Path:
    """Install what the lock names and return the folder of the JavaScript program."""
    execute(["npm", "ci", "--ignore-scripts"], folder=NODE)
    return NODE


@dataclass(frozen=True, slots=True)
class PublishingClient:
    """A client, by the program that publishes the events of a file with it."""

    name: str
    command: Callable[[], Command]
    binary: bool = False
    """True for an SDK of CloudEvents, which can write binary mode as well."""

    def publish(self, run: Mapping[str, object], folder: Path) -> None:
        file = folder / "run.json"
        file.write_text(json.dumps(run))
        execute([*self.command(), file])


CLIENTS: Final = (
    PublishingClient("kafka-clients", lambda: java_command(java_folder(), "Publish")),
    PublishingClient("librdkafka", lambda: [PYTHON, HERE / "python/publish_librdkafka.py"]),
    PublishingClient("franz-go", lambda: [go_program(), "publish"]),
    PublishingClient("kafkajs", lambda: ["node", node_modules() / "publish.mjs", "kafkajs"]),
    PublishingClient("cloudevents-python", lambda: [PYTHON, HERE / "python/publish_cloudevents.py"], binary=True),
    PublishingClient("cloudevents-js", lambda: ["node", node_modules() / "publish.mjs", "cloudevents"], binary=True),
)
READERS: Final[Mapping[str, Callable[[], Command]]] = {
    "librdkafka": lambda: [PYTHON, HERE / "python/read_outcomes.py"],
    "franz-go": lambda: [go_program(), "read"],
}


def missing_tools() -> list[str]:
    """Return what has to be installed before the programs can run."""
    missing = [tool for tool in ("java", "javac", "go", "node", "npm") if shutil.which(tool) is None]
    return missing if PYTHON.exists() else [*missing, ".venv-producers"]


def execute(command: Command, *, folder: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it prints; it must succeed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout
