"""A certificate authority of one test cluster, and what it has signed, as PEM files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, each in a file of its own and both in a third one."""

    certificate: Path
    key: Path
    both: Path


class CertificateAuthority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test CA")
        signed = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(signed.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def sign(self, common_name: str) -> Certificate:
        """Return a new certificate for `common_name`, with which a server of this machine can be reached, too."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        signed = _builder(_name(common_name), self._name, key.public_key()).add_extension(here, critical=False)
        certificate = signed.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files = Certificate(*(self._folder / f"{common_name}.{suffix}" for suffix in ("crt", "key", "pem")))
        files.certificate.write_bytes(certificate)
        files.key.write_bytes(private)
        files.both.write_bytes(private + certificate)
        return files


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A clock that was set back since must not make it invalid.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
    )
