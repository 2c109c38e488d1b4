"""Mistakes in variables, Secrets and ConfigMaps."""

from typing import Final

from tests.deployment.kubernetes.planting import (
    API,
    INDEXER,
    SEARCH,
    PlantedMistake,
    add_variable,
    in_container,
    in_object,
    in_pod,
    in_settings,
    remove_variable,
    write_into_manifest,
)

SETTINGS: Final = [
    PlantedMistake(
        "unknown-setting", in_settings("kb-indexer-settings", KB_MAX_INFLIGHT="8"), INDEXER, "KB_MAX_INFLIGHT"
    ),
    PlantedMistake(
        "setting-of-another-service",
        in_settings("kb-search-settings", KB_MAX_IN_FLIGHT="8"),
        SEARCH,
        "KB_MAX_IN_FLIGHT is no setting of kb-search",
    ),
    PlantedMistake(
        "unreadable-value",
        in_settings("kb-indexer-settings", KB_MAX_IN_FLIGHT="many"),
        INDEXER,
        "max_in_flight",
    ),
    PlantedMistake(
        "kafka-in-search",
        in_container("kb-search", lambda each: add_variable(each, "KB_KAFKA", "kafka:9093")),
        SEARCH,
        "KB_KAFKA is no setting of kb-search",
    ),
    PlantedMistake(
        "loopback",
        in_container("kb-indexer", lambda each: add_variable(each, "KB_HTTP_HOST", "127.0.0.1")),
        INDEXER,
        "it listens on 127.0.0.1",
    ),
    PlantedMistake(
        "development-in-production",
        in_container("kb-indexer", lambda each: add_variable(each, "KB_ENVIRONMENT", "development")),
        INDEXER,
        "KB_ENVIRONMENT is development",
    ),
    PlantedMistake(
        "private-providers-in-production",
        in_container("kb-search", lambda each: add_variable(each, "KB_ALLOW_PRIVATE_ADDRESSES", "on")),
        SEARCH,
        "KB_ALLOW_PRIVATE_ADDRESSES",
    ),
    PlantedMistake(
        "secret-in-manifest",
        in_container(
            "kb-reconciler",
            lambda each: write_into_manifest(each, "KB_MONGO_URI", "mongodb://m1/?replicaSet=rs0"),
        ),
        "Deployment kb-reconciler",
        "KB_MONGO_URI is in a manifest",
    ),
    PlantedMistake(
        "missing-secret",
        in_container("kb-search", lambda each: remove_variable(each, "KB_PROVIDER_KEYS")),
        SEARCH,
        "KB_PROVIDER_KEYS is missing",
    ),
    PlantedMistake(
        "undocumented-secret",
        in_container("kb-search", lambda each: each["env"][0]["valueFrom"]["secretKeyRef"].update(key="url")),
        SEARCH,
        "key 'url' of Secret 'kb-mongodb'",
    ),
    PlantedMistake(
        "keys-of-providers-in-reconciler",
        in_container("kb-reconciler", lambda each: each["envFrom"].append({"secretRef": {"name": "kb-providers"}})),
        "Deployment kb-reconciler",
        "it has the keys of the providers",
    ),
    PlantedMistake(
        "password-file-that-is-not-mounted",
        in_container(
            "kb-api", lambda each: add_variable(each, "KB_KAFKA_SASL_PASSWORD_FILE", "/run/secrets/kafka/password")
        ),
        API,
        "KB_KAFKA_SASL_PASSWORD_FILE is /run/secrets",
    ),
    PlantedMistake(
        "sasl-without-sasl",
        in_container("kb-api", lambda each: add_variable(each, "KB_KAFKA_SECURITY_PROTOCOL", "SSL")),
        API,
        "its settings are refused",
    ),
    PlantedMistake(
        "optional-secret",
        in_container("kb-search", lambda each: each["env"][0]["valueFrom"]["secretKeyRef"].update(optional=True)),
        SEARCH,
        "KB_MONGO_URI is optional",
    ),
    PlantedMistake(
        "undocumented-file",
        in_container("kb-api", lambda each: add_variable(each, "KB_KAFKA_SSL_CA_FILE", "/etc/kb/kafka/authority.crt")),
        API,
        "key 'authority.crt' of Secret 'kb-api-kafka'",
    ),
    PlantedMistake(
        "undocumented-secret-of-keda",
        in_object(
            "TriggerAuthentication", "kb-kafka", lambda each: each["spec"]["secretTargetRef"][0].update(key="user")
        ),
        "TriggerAuthentication kb-kafka",
        "key 'user' of Secret 'kb-keda-kafka'",
    ),
    PlantedMistake(
        "undocumented-keys-of-providers",
        in_container("kb-search", lambda each: each["envFrom"][-1]["secretRef"].update(name="kb-provider")),
        SEARCH,
        "Secret 'kb-provider' is not documented",
    ),
    PlantedMistake(
        "undocumented-certificates",
        in_pod("kb-search", lambda each: each["volumes"][1]["secret"].update(secretName="kb-mongo-tls")),
        SEARCH,
        "Secret 'kb-mongo-tls' is not documented",
    ),
]
