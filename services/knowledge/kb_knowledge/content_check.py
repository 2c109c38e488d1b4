"""Refuses texts that contain credentials."""

from collections.abc import Iterator, Mapping
from typing import Final

from kb_contracts.knowledge.properties import PropertyValue
from kb_shared.errors import RequestError
from kb_shared.text.content_check import check_content

SENSITIVE: Final = "sensitive-content"
_OVERRIDE: Final = " If it is none, resend it with an `override_reason`, which the audit log keeps."


def refuse_sensitive(text: str, *, field: str, can_override: bool = False) -> None:
    """Check a text of a request.

    Args:
        field: name of the field in the request, for its sender. It must not come from the request.
        can_override: whether the request can have an `override_reason`.

    Raises:
        RequestError: 422 `sensitive-content` with `pattern`, `line` and `field`, never with the credential.
    """
    if found := check_content(text):
        raise RequestError(
            422,
            SENSITIVE,
            f"Remove the credential ({found.pattern}) from line {found.line} of `{field}` and resend. "
            f"Credentials belong into a vault.{_OVERRIDE if can_override else ''}",
            extra={"pattern": str(found.pattern), "line": found.line, "field": field},
        )


def refuse_sensitive_properties(properties: Mapping[str, PropertyValue]) -> None:
    """Check the properties of an entity, a node or an edge, each with its name. Raises as `refuse_sensitive`."""
    for line in property_lines(properties):
        refuse_sensitive(line, field="properties")


def property_lines(properties: Mapping[str, PropertyValue]) -> Iterator[str]:
    """Yield the texts to check of properties: a value may be a credential because of its name."""
    return (f"{name}: {value}" for name, value in properties.items() if isinstance(value, str))
