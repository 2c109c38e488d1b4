"""Request bodies that change a KB, as this service takes them."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from kb_contracts.api.knowledge_bases import IMMUTABLE, ChangeKnowledgeBase
from kb_shared.errors import RequestError


def _refuse_immutable(value: Any) -> Any:
    named = [name for name in IMMUTABLE if isinstance(value, dict) and name in value]
    if named:
        raise RequestError(
            422,
            "immutable-field",
            f"{', '.join(named)} can't change once a knowledge base exists. Create another knowledge base with the "
            "same tag_ids and the new values, and delete this one when that is active.",
            extra={"fields": [{"field": name, "message": "can't change"} for name in named]},
        )
    return value


RequestedChange: TypeAlias = Annotated[ChangeKnowledgeBase, BeforeValidator(_refuse_immutable)]
