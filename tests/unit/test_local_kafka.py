from pathlib import Path

import pytest

from kb_local.errors import UnusableServer
from kb_local.supervisor import make_stack
from kb_shared.kafka_connection.connection import KafkaConnection

SASL = {"KB_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KB_KAFKA_SASL_MECHANISM": "PLAIN"}


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (SASL | {"KB_KAFKA": "broker:9092"}, "KB_KAFKA_SASL_PASSWORD_FILE is missing"),
        ({"KB_KAFKA_SECURITY_PROTOCOL": "SSL"}, "the local broker has no SSL"),
    ],
)
def test_kb_up_refuses_a_kafka_connection_that_can_never_work(
    environment: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UnusableServer, match=problem):
        make_stack(environment | {"KB_HOME": str(tmp_path)})


def test_kb_up_connects_to_a_cluster_as_its_services_do(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    environment = SASL | {
        "KB_HOME": str(tmp_path / "home"),
        "KB_KAFKA": "broker:9092",
        "KB_KAFKA_SASL_USERNAME": "kb",
        "KB_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "password"),
    }
    assert make_stack(environment).kafka_connection == KafkaConnection.from_environment(environment)
