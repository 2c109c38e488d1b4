"""Which MongoDB and Kafka the tests run against, as the environment says."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kb_local.mongod import mongod_binary

SELECTION: Final = "KB_TEST_BACKEND"
MONGO_URI: Final = "KB_TEST_MONGO_URI"
KAFKA: Final = "KB_TEST_KAFKA"

ATLAS_LOCAL_IMAGE: Final = "mongodb/mongodb-atlas-local:8.0.13"
KAFKA_IMAGE: Final = "apache/kafka:4.4.0"


class UnusableBackend(ValueError):
    """The variables name no backend, or two at once; `str()` says what to change."""


class BackendKind(StrEnum):
    LOCAL = "local"
    DOCKER = "docker"


@dataclass(frozen=True, slots=True)
class Backend:
    kind: BackendKind
    mongo_uri: str | None
    """URI of a deployment that runs already; None: the run starts one."""
    kafka: str | None
    """Bootstrap servers of a cluster that runs already; None: the run starts one."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Backend":
        """Raises UnusableBackend."""
        selected = environment.get(SELECTION, BackendKind.LOCAL)
        if selected not in list(BackendKind):
            raise UnusableBackend(
                f"{SELECTION} must be one of {', '.join(BackendKind)}, or unset for {BackendKind.LOCAL}"
            )
        kind = BackendKind(selected)
        mongo_uri, kafka = environment.get(MONGO_URI), environment.get(KAFKA)
        if kind is BackendKind.DOCKER and (mongo_uri or kafka):
            raise UnusableBackend(
                f"{SELECTION}={BackendKind.DOCKER} starts MongoDB and Kafka of its own: unset {MONGO_URI} and {KAFKA}, "
                f"or unset {SELECTION}"
            )
        return cls(kind, mongo_uri or None, kafka or None)

    @property
    def has_local_broker(self) -> bool:
        """Say whether Kafka is the broker of `kb_local`: no idempotent producers, and members that leave are lost."""
        return self.kind is BackendKind.LOCAL and self.kafka is None

    def described(self) -> list[str]:
        """Return what the header of the run says; addresses may hold passwords and are not repeated."""
        if self.kind is BackendKind.DOCKER:
            return [f"mongodb: a container of {ATLAS_LOCAL_IMAGE}", f"kafka: a container of {KAFKA_IMAGE}"]
        return [
            f"mongodb: {MONGO_URI if self.mongo_uri else f'{mongod_binary()} behind the search node'}",
            f"kafka: {KAFKA if self.kafka else 'the broker of kb_local'}",
        ]
