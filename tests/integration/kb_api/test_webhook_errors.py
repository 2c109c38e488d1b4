"""The error of a delivery says what went wrong: the name, the connection, the check of TLS, the phase or the status."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kb_api.webhooks import webhook_sender
from kb_api.webhooks.webhook_sender import AttemptOutcome, WebhookSender
from kb_local.ports import free_port
from kb_shared.providers import public_transport

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Key = ec.EllipticCurvePrivateKey
NOW = datetime.now(UTC)
HERE = x509.IPAddress(ip_address("127.0.0.1"))
SECRET = "whsec_" + "A" * 32


@pytest.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    sender = WebhookSender(allow_private=True)
    yield sender
    await sender.close()


async def send(sender: WebhookSender, url: str) -> AttemptOutcome:
    return await sender.send(url, b"{}", message_id="m", secrets_in_use=[SECRET])


async def no_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Closing a socket with unread bytes resets the connection.
    await reader.read(1)
    writer.transport.abort()


async def speak_no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    writer.close()


def with_status(status: int) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        writer.close()

    return answer


def compressed(status: int) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\ncontent-encoding: br\r\nretry-after: 60\r\ncontent-length: 2\r\n\r\n"
        writer.write(head.encode() + b"ok")
        writer.close()

    return answer


@asynccontextmanager
async def serve(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (with_status(200), 200, None),
        (with_status(204), 204, None),
        (with_status(302), 302, "refused"),
        (with_status(404), 404, "refused"),
        (with_status(429), 429, "put-off"),
        (with_status(500), 500, "refused"),
        (with_status(503), 503, "put-off"),
        (compressed(200), 200, None),
        (compressed(503), 503, "put-off"),
        (close, None, "connection-closed"),
        (reset, None, "connection-closed"),
        (speak_no_http, None, "no-http-answer"),
    ],
)
async def test_an_answer_is_told_by_its_status_and_a_missing_one_by_its_connection(
    sender: WebhookSender, answer: Answer, status: int | None, error: str | None
) -> None:
    async with serve(answer) as address:
        outcome = await send(sender, f"http://{address}/hook")
    assert (outcome.status, outcome.error) == (status, error)


async def test_a_port_on_which_nothing_listens_is_a_refused_connection(sender: WebhookSender) -> None:
    for host in ("127.0.0.1", "localhost"):
        assert (await send(sender, f"http://{host}:{free_port()}/hook")).error == "connection-refused"


async def test_a_name_that_does_not_exist_is_told_as_one_that_is_private_to_this_network(sender: WebhookSender) -> None:
    assert (await send(sender, "http://no-such-host.invalid/hook")).error == "name-not-resolved"
    strict = WebhookSender(allow_private=False)
    for host in ("no-such-host.invalid", "localhost"):
        assert (await send(strict, f"https://{host}/hook")).error == "name-not-resolved"
    await strict.close()


@pytest.mark.parametrize(("scheme", "error"), [("http", "timeout-answer"), ("https", "timeout-tls")])
async def test_a_timeout_names_the_phase(monkeypatch: pytest.MonkeyPatch, scheme: str, error: str) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(webhook_sender, "ATTEMPT_WITHIN_S", 0.3)
        sender = WebhookSender(allow_private=True)
    async with serve(no_answer) as address:
        assert (await send(sender, f"{scheme}://{address}/hook")).error == error
    await sender.close()


async def test_a_timeout_before_there_is_a_connection_names_that_phase(
    sender: WebhookSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(webhook_sender, "ATTEMPT_WITHIN_S", 0.2)
    monkeypatch.setattr("anyio.connect_tcp", hang)
    assert (await send(sender, "http://127.0.0.1:9/hook")).error == "timeout-connect"


class Authority:
    """A certificate authority that signs what a test wants."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(self._sign(self.name, self.key, is_authority=True))

    def _sign(
        self,
        subject: x509.Name,
        key: Key,
        *,
        issuer: Key | None = None,
        name: x509.GeneralName = HERE,
        valid: tuple[int, int] = (-2, 2),
        is_authority: bool = False,
    ) -> bytes:
        is_self_signed = issuer is None
        signed = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_self_signed else self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + timedelta(days=valid[0]))
            .not_valid_after(NOW + timedelta(days=valid[1]))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .sign(issuer or key, SHA256())
        )
        return signed.public_bytes(Encoding.PEM)

    def server(
        self, *, name: x509.GeneralName = HERE, valid: tuple[int, int] = (-2, 2), is_self_signed: bool = False
    ) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
        certificate = self._sign(subject, key, issuer=None if is_self_signed else self.key, name=name, valid=valid)
        file = self._folder / "receiver.pem"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def trusting(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WebhookSender]:
    """Trust the authority of the test."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    monkeypatch.setattr(public_transport, "tls_context", lambda: context)
    sender = WebhookSender(allow_private=True)
    yield sender
    await sender.close()


@pytest.mark.parametrize(
    ("name", "valid", "is_self_signed", "error"),
    [
        (HERE, (-2, 2), False, None),
        (HERE, (-2, -1), False, "tls-certificate-expired"),
        (HERE, (1, 2), False, "tls-certificate-not-yet-valid"),
        (x509.DNSName("example.com"), (-2, 2), False, "tls-host-name"),
        (x509.IPAddress(ip_address("127.0.0.2")), (-2, 2), False, "tls-host-name"),
        (HERE, (-2, 2), True, "tls-certificate-self-signed"),
    ],
)
async def test_a_certificate_that_is_refused_says_which_check_it_failed(
    trusting: WebhookSender,
    authority: Authority,
    *,
    name: x509.GeneralName,
    valid: tuple[int, int],
    is_self_signed: bool,
    error: str | None,
) -> None:
    context = authority.server(name=name, valid=valid, is_self_signed=is_self_signed)
    async with serve(with_status(204), tls=context) as address:
        assert (await send(trusting, f"https://{address}/hook")).error == error


async def test_a_certificate_of_an_unknown_authority_says_so(sender: WebhookSender, authority: Authority) -> None:
    async with serve(with_status(204), tls=authority.server()) as address:
        assert (await send(sender, f"https://{address}/hook")).error == "tls-authority-unknown"


async def test_a_receiver_without_tls_or_that_ends_the_handshake_fails_by_protocol(
    trusting: WebhookSender, authority: Authority
) -> None:
    async def answer_in_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4_096)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with serve(answer_in_clear) as address:
        assert (await send(trusting, f"https://{address}/hook")).error == "tls-protocol"
    demanding = authority.server()
    demanding.load_verify_locations(authority.certificate)
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serve(with_status(204), tls=demanding) as address:
        assert (await send(trusting, f"https://{address}/hook")).error == "tls-protocol"
