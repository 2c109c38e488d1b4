"""What a client library is given when it opens a connection is what the files hold at that time."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from kb_shared.kafka_connection.clients import admin_client, consumer_client, producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.kafka_connection.files import UnusableFile
from kb_shared.kafka_connection.tls import ReloadingContext, TlsFiles
from tests.unit.kafka_connection.certificates import write_certificate


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Go through the handshake of TLS in memory; raises what the client raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


def server_with(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


def test_a_new_connection_trusts_the_authority_that_the_file_names_now(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        write_certificate(tmp_path / name / "certificate", tmp_path / name / "key", name=name)
    authority = tmp_path / "ca.pem"
    authority.write_bytes((tmp_path / "old/certificate").read_bytes())
    context = ReloadingContext(TlsFiles(authority, None, None, None))
    shake_hands(context, server_with(tmp_path / "old"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, server_with(tmp_path / "new"))
    authority.write_bytes((tmp_path / "new/certificate").read_bytes())
    shake_hands(context, server_with(tmp_path / "new"))


def test_a_file_that_is_gone_for_a_moment_fails_a_connection_and_not_those_after_it(tmp_path: Path) -> None:
    write_certificate(tmp_path / "certificate", tmp_path / "key", name="broker")
    server, context = server_with(tmp_path), ReloadingContext(TlsFiles(tmp_path / "certificate", None, None, None))
    (tmp_path / "certificate").rename(tmp_path / "away")
    with pytest.raises(UnusableFile, match="can't be read"):
        shake_hands(context, server)
    (tmp_path / "away").rename(tmp_path / "certificate")
    shake_hands(context, server)


@pytest.mark.parametrize("make", [producer_client, consumer_client, admin_client])
async def test_a_new_connection_uses_the_user_and_the_password_that_the_files_hold_now(
    make: Any, tmp_path: Path
) -> None:
    username, password = tmp_path / "username", tmp_path / "password"
    username.write_text("first\n")
    password.write_text("first-secret\n")
    client = make(
        KafkaConnection(
            "127.0.0.1:1",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username_file=username,
            sasl_password_file=password,
        )
    )
    used = client.client if make is producer_client else client._client
    assert (used._sasl_plain_username, used._sasl_plain_password) == ("first", "first-secret")
    username.write_text("second")
    password.write_text("second-secret")
    assert (used._sasl_plain_username, used._sasl_plain_password) == ("second", "second-secret")
    password.unlink()
    with pytest.raises(KafkaError):  # not the file's own: the library goes on to the next broker
        await used.bootstrap()
    await (client.close() if make is admin_client else client.stop())
