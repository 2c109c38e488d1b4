"""Opens MongoDB URIs and refuses what the services can't work with.

No message of this module quotes a URI with a password: a typing error can move it into any part of the URI.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import split_options

from kb_shared.errors import Misconfigured

MongoConnection: TypeAlias = AsyncMongoClient[dict[str, Any]]

_SECRETS: Final = ("@", "password")
"""Parts of a URI that holds a secret: user and password before an `@`, or the password of a key file."""


def create_client(uri: str, **options: Any) -> MongoConnection:
    """Return a client of the deployment at `uri`; nothing is sent yet.

    Args:
        uri: the driver ignores an option in it that it does not know or understand; here that is an error.
        options: of the driver's client; they override those of the URI.

    Raises:
        Misconfigured: the URI can't be read, or has options that would lose acknowledged writes or read what can be
            rolled back. Names every such option, with the reason and what to change.
    """
    _, _, written = uri.partition("?")
    try:
        refusals = _refusals(split_options(written)) if written else []
        client = MongoConnection(uri, **options)
    except (PyMongoError, ValueError, TypeError, OSError) as error:
        raise _unreadable(uri, error) from None
    if refusals:
        raise Misconfigured("KB_MONGO_URI can't be used: " + "; ".join(refusals))
    return client


def _refusals(options: Mapping[str, Any]) -> list[str]:
    refusals = []
    if options.get("readpreference", "primary") != "primary":
        refusals.append(
            "remove readPreference: a secondary lags behind, and what the services decide must rest on the newest state"
        )
    if "readconcernlevel" in options:
        refusals.append(
            "remove readConcernLevel: the services choose it for each read, and Atlas search accepts only `local`"
        )
    if options.get("retrywrites") is False:
        refusals.append("remove retryWrites=false: a change of the primary would fail writes that can be repeated")
    if options.get("journal") is False:
        refusals.append("remove journal=false: a write that is not in the journal is lost when a server crashes")
    if options.get("w", "majority") != "majority":
        refusals.append("remove w or set w=majority: a write that fewer members have is lost when the primary dies")
    return refusals


def _unreadable(uri: str, error: Exception) -> Misconfigured:
    holds_secret = any(mark in uri.lower() for mark in _SECRETS)
    # The driver's messages quote parts of the URI.
    reason = type(error).__name__ if holds_secret else f"{type(error).__name__}: {error}"
    return Misconfigured(
        f"KB_MONGO_URI can't be read ({reason}): check its scheme, hosts, options and the files it names, and "
        "percent-encode special characters in the user name and the password"
    )
