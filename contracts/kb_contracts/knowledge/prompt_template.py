"""Prompt templates: `{{ name }}` stands for a section, a variable or the input of the user."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

DEFAULT_TEMPLATE: Final = (
    "{{ user_profile }}\n\n{{ instructions }}\n\n{{ context }}\n\n{{ skills }}\n\n"
    "User request: {{ user_input }}\n\n{{ action_result }}"
)
_PLACEHOLDER: Final = re.compile(r"\{\{([^{}]*)\}\}")

FeedConflictResolution: TypeAlias = Literal["feed_only", "attribute_only", "merge"]
"""Choice between a value and knowledge of the same name.

`feed_only`: the knowledge replaces the value. `attribute_only`: the value stays. `merge`: the value, a newline, and
the knowledge. An empty string does not conflict: the other one is used.
"""


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder by its value, or by nothing if there is none.

    Values are not searched for placeholders: what they contain is data.
    """
    return _PLACEHOLDER.sub(lambda found: values.get(found[1].strip(), ""), template)


def placeholders(template: str) -> frozenset[str]:
    """Return the names that a template needs values for."""
    return frozenset(name.strip() for name in _PLACEHOLDER.findall(template))


def feed_knowledge(
    attributes: Mapping[str, str],
    knowledge: Mapping[str, str],
    *,
    conflict_resolution: FeedConflictResolution = "feed_only",
) -> dict[str, str]:
    """Return attributes and knowledge as the values of a template."""
    return {
        name: _resolve_conflict(attributes.get(name, ""), knowledge.get(name, ""), conflict_resolution)
        for name in {**attributes, **knowledge}
    }


def _resolve_conflict(attribute: str, knowledge: str, conflict_resolution: FeedConflictResolution) -> str:
    if not attribute or not knowledge:
        return attribute or knowledge
    match conflict_resolution:
        case "feed_only":
            return knowledge
        case "attribute_only":
            return attribute
        case "merge":
            return f"{attribute}\n{knowledge}"
