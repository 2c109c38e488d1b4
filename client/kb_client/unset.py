"""The default of arguments that are not sent: in the API an absent field differs from null."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


def without_unset(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were given."""
    return {name: value for name, value in fields.items() if value is not UNSET}
