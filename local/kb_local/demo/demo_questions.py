"""Questions that the demo asks, and the libraries whose descriptions answer them: what the local stack itself needs."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    text: str
    asks: Literal["permissive", "network"]
    """Knowledge base that is asked."""
    library: str
    answer: str
    """Words of the sentence that answers, in the description of the library."""


DEMO_QUESTIONS: Final = (
    DemoQuestion(
        "How can I make my systems resilient?",
        "permissive",
        library="stamina",
        answer="you need to **retry** failed operations",
    ),
    DemoQuestion(
        "Which library validates data with type hints?",
        "network",
        library="pydantic",
        answer="Data validation using Python type hints.",
    ),
    DemoQuestion(
        "What can show progress bars in the terminal?",
        "permissive",
        library="rich",
        answer="progress bars",
    ),
)
