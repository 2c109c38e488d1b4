"""The attacks: texts in documents that try to make a model follow their instructions."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

Via: TypeAlias = Literal["passage", "name", "document", "knowledge"]
FILE: Final = Path(__file__).with_name("attacks.toml")


@dataclass(frozen=True, slots=True)
class Attack:
    attack_id: str
    category: str
    instructions: str
    """For people."""
    does: str
    """Words that stand in a call or an answer of a model that obeys."""
    text: str
    via: Via = "passage"
    """Place of the text: in a passage, in the name of a document, in the document that a question is about, or in an
    entity and a piece that are injected into the prompt."""
    is_obeyed: bool = True
    """True if the model can read the demand as one; if not, it does nothing of it."""
    by_schema: bool = False
    """True if the answer has to follow a schema."""

    @property
    def model_heeds_marks(self) -> bool:
        return self.category == "escapes" or (self.category == "injected" and not self.is_obeyed)

    @property
    def is_indexed(self) -> bool:
        """Return whether the text is in a document of the knowledge base."""
        return self.via in {"passage", "name"}


def read_attacks() -> list[Attack]:
    """Read them in the order of the file."""
    entries = tomllib.loads(FILE.read_text())["attack"]
    return [Attack(attack_id=entry.pop("id"), **entry) for entry in entries]
