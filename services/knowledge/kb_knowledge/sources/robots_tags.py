"""Reads what a server asks crawlers in the header X-Robots-Tag, and a page in meta elements. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kb_knowledge.sources.guarded_http import ROBOT

_SEPARATORS: Final = re.compile(r"[\s,;]+")
_RULES_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


@dataclass(frozen=True, slots=True)
class RobotsTags:
    index: bool = True
    """False if the page is not to be stored."""
    follow: bool = True
    """False if its links are not to be followed."""


def read_robots_tags(headers: Iterable[str], metas: Mapping[str, str] | None = None) -> RobotsTags:
    """Return what is asked of all crawlers and of ours.

    Args:
        headers: values of X-Robots-Tag, each as the server sent it: a name of a crawler counts to the end of its value.
        metas: contents of meta elements by name.
    """
    asked = {rule for value in headers for rule in _rules_for_us(value)}
    asked.update(rule for name in ("robots", ROBOT) for rule in _words((metas or {}).get(name, "")))
    return RobotsTags(index=not asked & {"noindex", "none"}, follow=not asked & {"nofollow", "none"})


def _rules_for_us(value: str) -> Iterable[str]:
    agent = ROBOT
    for part in value.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() not in _RULES_WITH_VALUE:
            agent, part = name.strip(), rest  # noqa: PLW2901  # what is left of it
        if agent in (ROBOT, "*", "robots"):
            yield from _words(part)


def _words(text: str) -> list[str]:
    return _SEPARATORS.split(text.strip().lower())
