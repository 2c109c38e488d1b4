"""Address, organization and API key: from arguments, environment variables, or a profile."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kb_client.errors import UnusableConfiguration
from kb_client.marked_text import decode_marked

DEFAULT_PROFILE: Final = "default"
_SettingName = Literal["base_url", "organization", "api_key"]
VARIABLES: Final[Mapping[_SettingName, str]] = {
    "base_url": "KB_BASE_URL",
    "organization": "KB_ORGANIZATION",
    "api_key": "KB_API_KEY",
}
_PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Complete settings of a client."""

    base_url: str
    organization: str
    api_key: str = field(repr=False)

    def url_of(self, path: str) -> str:
        """Return the URL of a path below the organization; that of the key itself is not below one."""
        below = "" if path.startswith("/v0/") else f"/v0/orgs/{self.organization}"
        return f"{self.base_url}{below}{path}"


def load_configuration(
    *,
    base_url: str | None = None,
    organization: str | None = None,
    api_key: str | None = None,
    profile: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Return each setting from the first place that has it: the argument, the environment variable, the profile.

    Args:
        base_url: as `KB_BASE_URL`.
        organization: as `KB_ORGANIZATION`.
        api_key: as `KB_API_KEY`.
        profile: name of a profile; by default `KB_PROFILE`, or the one that the file names.
        environment: by default that of the process.

    Raises:
        UnusableConfiguration: a setting is in none of the places, or can't be used.
    """
    environment = os.environ if environment is None else environment
    given: dict[_SettingName, str | None] = {"base_url": base_url, "organization": organization, "api_key": api_key}
    values = {name: given[name] or environment.get(variable) for name, variable in VARIABLES.items()}
    named = profile or environment.get("KB_PROFILE")
    path = configuration_path(environment)
    if named or not all(values.values()):
        profiles = read_profiles(path)
        stored = profiles.get(named)
        values = {name: value or stored.get(name) for name, value in values.items()}
    missing = [name for name in VARIABLES if not values[name]]
    if missing:
        raise UnusableConfiguration(_describe_missing(missing, path))
    complete = {name: value for name, value in values.items() if value}
    return Configuration(
        _checked_base_url(complete["base_url"]),
        _checked_organization(complete["organization"]),
        _checked_key(complete["api_key"]),
    )


def configuration_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file with the profiles."""
    environment = os.environ if environment is None else environment
    base = environment.get("XDG_CONFIG_HOME", "")
    # A relative path is to be ignored, by the specification.
    folder = Path(base) if base.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return folder / "kb" / "config.toml"


@dataclass(frozen=True, slots=True)
class Profiles:
    """Profiles of the configuration file."""

    by_name: Mapping[str, Mapping[str, str]] = field(repr=False)
    current: str = DEFAULT_PROFILE
    """Name of the profile that is used unless another one is named."""

    def get(self, name: str | None) -> Mapping[str, str]:
        """Return a profile; without a name the current one, or an empty one.

        Raises:
            UnusableConfiguration: there is none with this name.
        """
        if name is None:
            return self.by_name.get(self.current, {})
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise UnusableConfiguration(f"there is no profile {name!r}; there are: {known}. `kb login` adds one")
        return self.by_name[name]


def read_profiles(path: Path) -> Profiles:
    """Read the configuration file; there need not be one.

    Raises:
        UnusableConfiguration: the file can't be read.
    """
    try:
        content = tomllib.loads(decode_marked(path.read_bytes()))
    except FileNotFoundError:
        return Profiles({})
    except (OSError, ValueError) as error:
        # The message of a parser may quote the line with the key.
        reason = error.strerror if isinstance(error, OSError) else "it is not TOML"
        raise UnusableConfiguration(f"{path} can't be read: {reason}") from None
    profiles, current = content.get("profiles", {}), content.get("current", DEFAULT_PROFILE)
    if not isinstance(current, str) or not _are_profiles(profiles):
        raise UnusableConfiguration(
            f"{path} should contain tables [profiles.NAME] with the strings base_url, organization and api_key"
        )
    return Profiles(profiles, current)


def save_profile(name: str, configuration: Configuration, *, path: Path | None = None) -> Path:
    """Write a profile, which becomes the current one, to a file that only its owner can read. Return its path.

    Raises:
        UnusableConfiguration: the name or the file can't be used.
    """
    if not _PROFILE_NAME.fullmatch(name):
        raise UnusableConfiguration("the name of a profile has 1 to 64 letters, digits, underscores and hyphens")
    path = path or configuration_path()
    profile = {
        "base_url": configuration.base_url,
        "organization": configuration.organization,
        "api_key": configuration.api_key,
    }
    by_name = {**read_profiles(path).by_name, name: profile}
    write_profiles(path, Profiles(by_name, name))
    return path


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the configuration file.

    Raises:
        UnusableConfiguration: it can't be written.
    """
    lines = [f"current = {_quoted(profiles.current)}"]
    for name, profile in profiles.by_name.items():
        lines += ["", f"[profiles.{_quoted(name)}]", *(f"{key} = {_quoted(value)}" for key, value in profile.items())]
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        new.replace(path)
    except OSError as error:
        raise UnusableConfiguration(f"{path} can't be written: {error.strerror}") from None


def _quoted(text: str) -> str:
    # The escapes of JSON are those of TOML, except that JSON leaves DEL as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _are_profiles(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(profile, dict) and all(isinstance(each, str) for each in profile.values())
        for profile in value.values()
    )


def _describe_missing(missing: list[_SettingName], path: Path) -> str:
    variables = ", ".join(VARIABLES[name] for name in missing)
    return (
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: pass"
        f" {', '.join(f'{name}=' for name in missing)} to the client, set {variables}, or run `kb login`, which writes"
        f" a profile to {path}. For a local stack, `kb up` prints the values"
    )


def _checked_base_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise UnusableConfiguration(
            "base_url (KB_BASE_URL) should be the address of the API without user, query and fragment, such as"
            " https://kb.example.com"
        )
    return url.rstrip("/")


def _checked_organization(organization: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", organization):
        raise UnusableConfiguration("organization (KB_ORGANIZATION) has 1 to 128 letters, digits, '.', '_' and '-'")
    return organization


def _checked_key(api_key: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", api_key):
        # The message does not repeat the key.
        raise UnusableConfiguration("api_key (KB_API_KEY) contains white space or other characters that no key has")
    return api_key
