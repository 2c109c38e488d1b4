"""How the processes of a test's stack log in at a Kafka cluster that knows each of them by name."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kb_shared.kafka_connection.connection import KafkaConnection

FOLDER: Final = "KB_TEST_KAFKA_PRINCIPALS"
"""Names a folder with `<principal>.password` for each principal, and `ca.pem`."""
ADMIN: Final = "KB_TEST_KAFKA_ADMIN"
"""Addresses at which all clients may do everything, to grant the rights of the others."""
PRINCIPAL_OF: Final = {
    "kb_api": "kb-api",
    "kb_indexer": "kb-indexer",
    "kb_search": "kb-search",
    "kb_knowledge": "kb-knowledge",
    "kb_reconciler": "kb-reconciler",
}
OPERATOR: Final = "operator"
UPSTREAM: Final = "upstream"
SUPER_USER: Final = "admin"


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """One principal a service, by SASL_SSL and SCRAM-SHA-512."""

    folder: Path
    admin: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Return what the environment says; None where all may do everything."""
        folder = environment.get(FOLDER)
        return cls(Path(folder), environment[ADMIN]) if folder else None

    @classmethod
    def write(cls, folder: Path, *, ca: Path, admin: str, passwords: Iterable[tuple[str, str]]) -> Self:
        """Make the folder."""
        folder.mkdir(parents=True)
        (folder / "ca.pem").write_bytes(ca.read_bytes())
        for principal, password in passwords:
            (folder / f"{principal}.password").write_text(password)
        return cls(folder, admin)

    def settings_of(self, principal: str) -> dict[str, str]:
        return {
            "KB_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KB_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KB_KAFKA_SASL_USERNAME": principal,
            "KB_KAFKA_SASL_PASSWORD_FILE": str(self.folder / f"{principal}.password"),
            "KB_KAFKA_SSL_CA_FILE": str(self.folder / "ca.pem"),
        }

    def connection_of(self, principal: str, bootstrap: str) -> KafkaConnection:
        return KafkaConnection.from_environment({**self.settings_of(principal), "KB_KAFKA": bootstrap})

    @property
    def settings_of_services(self) -> dict[str, dict[str, str]]:
        """By package."""
        return {package: self.settings_of(principal) for package, principal in PRINCIPAL_OF.items()}


def kafka_access() -> KafkaAccess | None:
    return KafkaAccess.from_environment(os.environ)
