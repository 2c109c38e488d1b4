from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kb_search.settings import SearchSettings
from kb_shared.kafka_connection.connection import KafkaConnection, UnusableKafkaConnection
from kb_shared.settings import CommonSettings
from tests.unit.kafka_connection.certificates import write_certificate

SOME_FILE = Path("/run/secrets/file")
SCRAM: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "indexer",
    "sasl_password_file": SOME_FILE,
}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"security_protocol": "TLS"}, "SECURITY_PROTOCOL must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "SASL_MECHANISM must be one of PLAIN, SCRAM"),
        (SCRAM | {"sasl_mechanism": "GSSAPI"}, "SASL_MECHANISM must be one of"),
        (SCRAM | {"security_protocol": "SSL"}, "SASL_MECHANISM has no effect, because KB_KAFKA_SECURITY_PROTOCOL"),
        (SCRAM | {"sasl_username": None}, "set one of KB_KAFKA_SASL_USERNAME and KB_KAFKA_SASL_USERNAME_FILE"),
        (SCRAM | {"sasl_username_file": SOME_FILE}, "and not both"),
        (SCRAM | {"sasl_password_file": None}, "SASL_PASSWORD_FILE is missing: KB_KAFKA_SASL_MECHANISM is SCRAM-SHA"),
        (SCRAM | {"sasl_token_file": SOME_FILE}, "SASL_TOKEN_FILE has no effect"),
        (SCRAM | {"sasl_mechanism": "OAUTHBEARER"}, "SASL_TOKEN_FILE is missing"),
        (
            SCRAM | {"sasl_mechanism": "OAUTHBEARER", "sasl_token_file": SOME_FILE},
            "SASL_USERNAME has no effect, because KB_KAFKA_SASL_MECHANISM is OAUTHBEARER",
        ),
        ({"ssl_ca_file": SOME_FILE}, "SSL_CA_FILE has no effect, because KB_KAFKA_SECURITY_PROTOCOL is not SSL"),
        (
            {"security_protocol": "SSL", "ssl_key_file": SOME_FILE},
            "SSL_KEY_FILE has no effect, because KB_KAFKA_SSL_CERTIFICATE_FILE is not set",
        ),
    ],
)
def test_settings_that_miss_something_or_have_no_effect_are_refused_by_name(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnusableKafkaConnection, match=reason):
        KafkaConnection("127.0.0.1:9092", **fields)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_service_does_not_start_with_a_password_file_it_cannot_use(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    if content is not None:
        password.write_bytes(content)
    monkeypatch.setenv("KB_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("KB_KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("KB_KAFKA_SASL_USERNAME", "indexer")
    monkeypatch.setenv("KB_KAFKA_SASL_PASSWORD_FILE", str(password))
    monkeypatch.setenv("KB_API_KEY_PEPPER", "not-to-be-shown")
    with pytest.raises(ValidationError, match=f"KB_KAFKA_SASL_PASSWORD_FILE: {password}") as refusal:
        CommonSettings()
    assert "not-to-be-shown" not in str(refusal.value)
    SearchSettings()  # it has no Kafka client, so it need not have the files


def test_certificate_and_key_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path / "a.crt", tmp_path / "a.key", name="a")
    write_certificate(tmp_path / "b.crt", tmp_path / "b.key", name="b")
    connection = KafkaConnection(
        "127.0.0.1:9092",
        security_protocol="SSL",
        ssl_ca_file=tmp_path / "a.crt",
        ssl_certificate_file=tmp_path / "a.crt",
        ssl_key_file=tmp_path / "b.key",
    )
    with pytest.raises(UnusableKafkaConnection, match="KEY_VALUES_MISMATCH"):
        connection.check_files()


def test_an_encrypted_key_needs_its_password_and_there_is_no_prompt_for_it(tmp_path: Path) -> None:
    write_certificate(tmp_path / "a.crt", tmp_path / "a.key", name="a", password=b"of-the-key")
    (tmp_path / "password").write_text("of-the-key\n")
    files: dict[str, Any] = {"ssl_certificate_file": tmp_path / "a.crt", "ssl_key_file": tmp_path / "a.key"}
    with pytest.raises(UnusableKafkaConnection, match="is encrypted"):
        KafkaConnection("127.0.0.1:9092", security_protocol="SSL", **files).check_files()
    KafkaConnection(
        "127.0.0.1:9092", security_protocol="SSL", **files, ssl_key_password_file=tmp_path / "password"
    ).check_files()


def test_the_environment_describes_the_connection_of_a_publisher_as_that_of_a_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("token")
    environment = {
        "KB_KAFKA": "broker:9093",
        "KB_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KB_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
        "KB_KAFKA_SASL_TOKEN_FILE": str(tmp_path / "token"),
        "KB_KAFKA_SASL_USERNAME": "",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connection = KafkaConnection.from_environment(environment)
    assert connection == CommonSettings().kafka_connection
    assert connection.sasl_token_file == tmp_path / "token"
