"""Reads variables as a service does at its start, with samples in the place of Secrets."""

import asyncio
import base64
import os
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import ValidationError

from kb_shared.errors import Misconfigured
from kb_shared.kafka_connection.connection import UnusableKafkaConnection
from kb_shared.service.production import check_settings
from kb_shared.settings import ServerSettings

SAMPLES: Final = {
    "KB_MONGO_URI": "mongodb://kb:secret@mongodb.example.com:27017/?replicaSet=rs0",
    "KB_API_KEY_PEPPER": "a secret of this check",
    "KB_API_KEY_FORMER_PEPPERS": '["another secret"]',
    "KB_API_KEY_NEXT_PEPPER": "one more secret",
    "KB_PROVIDER_KEYS": "1:" + base64.b64encode(bytes(32)).decode(),
    "KB_CONSOLE_SECRET": "a secret of the console, of 32 characters",
    "KB_CONSOLE_FORMER_SECRET": "a former secret of the console, longer",
    "KB_BOOTSTRAP_ORGANIZATION": "acme",
    "KB_BOOTSTRAP_ADMIN_KEY": "kb_0123456789ab_" + "0" * 64,
}
"""Contents of the Secrets."""


@cache
def read_settings(settings: type[ServerSettings], variables: tuple[tuple[str, str], ...]) -> ServerSettings | str:
    """Return the settings of a service with these variables, or the reason why it would not start.

    Files that the variables name are replaced by samples.
    """
    with TemporaryDirectory() as folder:
        environment = {
            name: str(_write_sample(Path(folder), Path(value).name)) if name.endswith("_FILE") and value else value
            for name, value in variables
        }
        with patch.dict(os.environ, environment, clear=True):
            try:
                read = settings()
                asyncio.run(check_settings(read))
            except ValidationError as error:
                return "; ".join(f"{each['loc']}: {each['msg']}" for each in error.errors())
            except (Misconfigured, UnusableKafkaConnection) as error:
                return str(error)
    return read


def _write_sample(folder: Path, name: str) -> Path:
    file = folder / name
    file.write_bytes(_certificate() if name.endswith(".crt") else b"secret\n")
    return file


@cache
def _certificate() -> bytes:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
