"""Values that callers give and that are sent as headers."""

import re
from collections.abc import Mapping
from typing import Final

from kb_client.errors import UnusableHeader

_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers.

    Raises:
        UnusableHeader: a value has characters that can't be sent, such as line breaks.
    """
    for name, value in headers.items():
        if not _VALUE.fullmatch(value):
            # The value is not repeated: it may be a secret.
            raise UnusableHeader(f"{name} is empty, or has characters that are not printable ASCII")
    return headers
