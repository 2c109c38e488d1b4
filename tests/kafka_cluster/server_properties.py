"""The `server.properties` of a broker of the test cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from kb_local.ports import LOOPBACK


class Listener(StrEnum):
    """Listener for clients. A client of PLAINTEXT or SSL is anonymous and may do everything."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    MTLS = "MTLS"
    """TLS with a certificate of the client, whose common name is the principal."""
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


CONTROLLER: Final = "CONTROLLER"
SUPER_USER: Final = "admin"
USERS: Final = (
    *(SUPER_USER, "kb-api", "kb-indexer", "kb-search", "kb-knowledge", "kb-reconciler"),
    *("upstream", "operator", "stranger"),
)
"""All can log in by PLAIN and SCRAM; what they may do is for ACLs to say."""
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_PROTOCOL: Final[dict[str, str]] = {
    CONTROLLER: "PLAINTEXT",
    **{each: each.value for each in Listener},
    Listener.MTLS: "SSL",
}
# A machine with two cores runs three of them beside the services.
_SMALL: Final = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.replica.fetchers": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "2",
}
# What happens after minutes by default happens after seconds.
_QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "offsets.retention.check.interval.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
}


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """Address at which one broker listens."""

    number: int
    ports: Mapping[str, int]

    def address(self, listener: str) -> str:
        return f"{LOOPBACK}:{self.ports[listener]}"


def password_of(user: str) -> str:
    return f"{user}-secret"


def server_properties(
    place: ListenerAddress, places: Sequence[ListenerAddress], *, data: Path, key_store: Path, trust_store: Path
) -> dict[str, str]:
    """Return the settings of the broker at `place`.

    Args:
        place: one of `places`.
        places: of all brokers.
        data: folder of its logs.
        key_store: PEM file with private key and certificate.
        trust_store: PEM file with the certificate of the authority that signed it, and those of clients.
    """
    copies = min(3, len(places))
    in_sync = max(1, copies - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(place.number),
        "controller.quorum.voters": ",".join(f"{each.number}@{each.address(CONTROLLER)}" for each in places),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": Listener.PLAINTEXT,
        "listeners": ",".join(f"{each}://{place.address(each)}" for each in place.ports),
        "advertised.listeners": ",".join(f"{each}://{place.address(each)}" for each in Listener),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOL.items()),
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "num.partitions": "4",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        **_SMALL,
        **_QUICK,
        **_tls(key_store, trust_store),
        **_authorization(),
        **_logins(),
    }


def _tls(key_store: Path, trust_store: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust_store),
        "ssl.client.auth": "none",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }


def _authorization() -> dict[str, str]:
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{SUPER_USER};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }


def _logins() -> dict[str, str]:
    security = "org.apache.kafka.common.security"
    plain = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
    jaas = {
        "plain": f"{security}.plain.PlainLoginModule required {plain};",
        **{mechanism.lower(): f"{security}.scram.ScramLoginModule required;" for mechanism in SCRAM},
        # Takes any token that is not expired, and its claim `sub` as the principal.
        "oauthbearer": f"{security}.oauthbearer.OAuthBearerLoginModule required;",
    }
    listeners = [each.lower() for each in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL)]
    handler = f"{security}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    return {
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
        **{f"listener.name.{each}.{name}.sasl.jaas.config": how for each in listeners for name, how in jaas.items()},
        **{f"listener.name.{each}.oauthbearer.sasl.server.callback.handler.class": handler for each in listeners},
    }
