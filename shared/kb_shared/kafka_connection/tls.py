"""Creates TLS connections to brokers, with certificates that may be renewed while the process runs."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kb_shared.kafka_connection.files import UnusableFile, read_secret


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM format; None if a file is not used."""

    ca: Path | None
    certificate: Path | None
    key: Path | None
    key_password: Path | None

    def load(self) -> ssl.SSLContext:
        """Create a context that checks the brokers' certificates and host names.

        Raises:
            UnusableFile: a file can't be read or used.
        """
        context = self._create_trusting_context()
        if self.certificate is not None:
            self._present_certificate(context, self.certificate)
        return context

    def _create_trusting_context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError:
            raise UnusableFile(f"{self.ca} holds no certificates in PEM format") from None
        except OSError as error:
            raise UnusableFile(f"{self.ca} can't be read ({error.strerror})") from None

    def _present_certificate(self, context: ssl.SSLContext, certificate: Path) -> None:
        named = " with ".join(str(path) for path in (certificate, self.key, self.key_password) if path)
        try:
            # Always a function: otherwise OpenSSL asks for the password of an encrypted key at the terminal.
            context.load_cert_chain(certificate, self.key, password=self._key_password)
        except UnusableFile:
            raise
        except ssl.SSLError as error:
            raise UnusableFile(f"{named} can't be used as certificate and key ({error.reason})") from None
        except OSError as error:
            raise UnusableFile(f"{named} can't be read ({error.strerror})") from None

    def _key_password(self) -> str:
        if self.key_password is None:
            raise UnusableFile(f"the private key in {self.key or self.certificate} is encrypted: a password is needed")
        return read_secret(self.key_password)

    def version(self) -> tuple[object, ...]:
        """Return a value that changes when a file is replaced or written."""
        return tuple(_version(path) for path in (self.ca, self.certificate, self.key, self.key_password) if path)


class ReloadingContext(ssl.SSLContext):
    """Reads the files again for each new connection.

    asyncio and uvloop call only `wrap_bio` of the context, once for each connection.
    """

    _files: TlsFiles
    _loaded: tuple[tuple[object, ...], ssl.SSLContext] | None

    def __new__(cls, files: TlsFiles) -> Self:
        context = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        context._files = files
        context._loaded = None
        return context

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Start TLS on a new connection.

        Raises:
            UnusableFile: the files can't be used at this time.
        """
        return self._newest().wrap_bio(*args, **options)

    def _newest(self) -> ssl.SSLContext:
        version = self._files.version()
        if self._loaded is None or self._loaded[0] != version:
            self._loaded = version, self._files.load()
        return self._loaded[1]


def _version(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UnusableFile(f"{path} can't be read ({error.strerror})") from None
    return status.st_ino, status.st_mtime_ns, status.st_size
