from pathlib import Path

import pytest

from kb_local.errors import UnusableServer
from kb_local.running_stacks import registered
from kb_local.state import Home, StackState
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


def test_the_line_that_kb_up_prints_does_not_turn_the_broker_of_the_stack_into_a_cluster(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    home.write_state(StackState(ports={"broker": 4711}))
    exported = {"KB_HOME": str(tmp_path), "KB_KAFKA": "127.0.0.1:4711"}
    assert make_stack(exported)._given_kafka is None
    assert make_stack(exported | {"KB_KAFKA": "127.0.0.1:4712"})._given_kafka == "127.0.0.1:4712"


def test_the_broker_of_another_stack_is_not_shared_by_accident(tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.prepare()
    other.write_state(StackState(ports={"broker": 4711}))
    environment = {"KB_HOME": str(tmp_path / "own"), "KB_KAFKA": "127.0.0.1:4711", "XDG_STATE_HOME": str(tmp_path)}
    with registered(other, environment):
        with pytest.raises(UnusableServer, match=r"is the broker of the stack in .*other"):
            make_stack(environment)
        assert make_stack(environment | {"KB_KAFKA_TOPIC_PREFIX": "own."})._given_kafka == "127.0.0.1:4711"
