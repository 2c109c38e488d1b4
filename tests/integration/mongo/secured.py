"""A replica set that requires TLS and a user, with the certificates that it accepts."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from kb_local.child import Child, execute
from kb_local.mongod import REPLICA_SET, mongod_binary
from kb_local.ports import LOOPBACK
from kb_local.server import Server

ADMIN: Final = "root-of-this-test"
ADMIN_PASSWORD: Final = "p@ss/word"  # characters that a URI has to escape
_NOT_YET_INITIALIZED: Final = 94
_NEW_KEY: Final = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
"""Made in milliseconds; one for RSA can take a second."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Made by a CA of their own; each `.pem` holds a certificate and its key."""

    ca: Path
    server: Path
    client: Path
    client_subject: str
    stranger: Path
    """Certificate of another CA."""


def make_certificates(folder: Path) -> Certificates:
    _make_ca(folder, "ca")
    _make_ca(folder, "other-ca")
    server = _issue(folder, "server", ca="ca", subject="/O=mongo/CN=server", names=f"IP:{LOOPBACK},DNS:localhost")
    # Another organization than the server's: a client with the same one would pass for a member of the replica set.
    client = _issue(folder, "client", ca="ca", subject="/O=services/CN=indexer")
    stranger = _issue(folder, "stranger", ca="other-ca", subject="/O=services/CN=indexer")
    return Certificates(folder / "ca.crt", server, client, "CN=indexer,O=services", stranger)


def _make_ca(folder: Path, name: str) -> None:
    _openssl(folder, f"req -x509 {_NEW_KEY} -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt")


def _issue(folder: Path, name: str, *, ca: str, subject: str, names: str | None = None) -> Path:
    _openssl(folder, f"req {_NEW_KEY} -nodes -subj {subject} -keyout {name}.key -out {name}.csr")
    extensions = folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
    signing = f"x509 -req -in {name}.csr -CA {ca}.crt -CAkey {ca}.key -CAcreateserial -days 2"
    _openssl(folder, f"{signing} -extfile {name}.ext -out {name}.crt")
    together = folder / f"{name}.pem"
    together.write_text((folder / f"{name}.crt").read_text() + (folder / f"{name}.key").read_text())
    return together


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)


class SecuredMongod(Server):
    def __init__(self, folder: Path, certificates: Certificates, *, port: int) -> None:
        super().__init__("secured mongod", port=port, log=folder / "mongod.log")
        self._data = folder / "data"
        self._key_file = folder / "key-file"
        self._certificates = certificates

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def admin(self) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(
            self.address,
            username=ADMIN,
            password=ADMIN_PASSWORD,
            directConnection=True,
            **self._tls,
        )

    @property
    def _tls(self) -> dict[str, Any]:
        return {"tls": True, "tlsCAFile": str(self._certificates.ca), "serverSelectionTimeoutMS": 2_000}

    def _launch(self) -> Child:
        self._data.mkdir(parents=True)
        self._key_file.write_text("c2VjcmV0IG9mIHRoaXMgdGVzdA==")
        self._key_file.chmod(0o400)
        return execute(
            [
                str(mongod_binary()),
                *("--replSet", REPLICA_SET),
                *("--bind_ip", LOOPBACK),
                *("--port", str(self.port)),
                *("--dbpath", str(self._data)),
                *("--keyFile", str(self._key_file)),
                *("--tlsMode", "requireTLS"),
                *("--tlsCertificateKeyFile", str(self._certificates.server)),
                *("--tlsCAFile", str(self._certificates.ca)),
                # Users who come with a password have no certificate.
                "--tlsAllowConnectionsWithoutCertificates",
                *("--wiredTigerCacheSizeGB", "0.25"),
                "--nounixsocket",
                "--quiet",
                "--setParameter=shutdownTimeoutMillisForSignaledShutdown=100",
                "--setParameter=diagnosticDataCollectionEnabled=false",
            ],
            log=self.log,
            env=os.environ,
        )

    async def is_ready(self) -> bool:
        """Say whether it can be written to; until then, as localhost may, make it a replica set and its first user."""
        try:
            async with AsyncMongoClient[dict[str, Any]](self.address, directConnection=True, **self._tls) as client:
                hello = await client.admin.command("hello")
                if hello.get("isWritablePrimary"):
                    await client.admin.command("createUser", ADMIN, pwd=ADMIN_PASSWORD, roles=["root"])
                    return True
                if "setName" not in hello:
                    member = {"_id": 0, "host": self.address}
                    await client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [member]})
        except PyMongoError as error:
            if isinstance(error, OperationFailure) and error.code not in (_NOT_YET_INITIALIZED, None):
                raise
        return False
