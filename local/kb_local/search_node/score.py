"""Carrying the score of a hit through a pipeline.

On Atlas the score is metadata, read by `{$meta: "vectorSearchScore"}` or `{$meta: "searchScore"}`. A mongod without
search has no such metadata, so the score travels in a hidden field, up to the last stage that asks for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb_local.search_node.hits import Hits

Stage = dict[str, Any]

RANK = "__search_rank"


@dataclass(frozen=True, slots=True)
class Score:
    """One of the two scores that documents may have: the hidden field, and how pipelines ask for it."""

    field: str
    name: str

    @property
    def meta(self) -> dict[str, str]:
        return {"$meta": self.name}


VECTOR_SCORE = Score("__vector_search_score", "vectorSearchScore")
TEXT_SCORE = Score("__search_score", "searchScore")

# After these a document is another one, and its metadata is gone.
REGROUPING = frozenset({"$group", "$bucket", "$bucketAuto", "$count", "$sortByCount", "$facet"})
WITH_OWN_DOCUMENTS = frozenset({"$lookup", "$unionWith"})


def hits_as_stages(hits: Hits, score: Score) -> list[Stage]:
    """Return stages that fetch the documents of the hits in their order; ids that are gone are left out."""
    ids = {"$literal": hits.ids}
    return [
        {"$match": {"_id": {"$in": hits.ids}}},
        {"$set": {RANK: {"$indexOfArray": [ids, "$_id"]}}},
        {"$sort": {RANK: 1}},
        {"$set": {score.field: {"$arrayElemAt": [{"$literal": hits.scores}, f"${RANK}"]}}},
        {"$unset": RANK},
    ]


def asks_for_score(part: object, score: Score) -> bool:
    if isinstance(part, dict):
        return part == score.meta or any(asks_for_score(value, score) for value in part.values())
    return isinstance(part, list) and any(asks_for_score(element, score) for element in part)


def carry_score(stages: Sequence[Stage], score: Score, *, keep: bool = False) -> list[Stage]:
    """Return the stages with the score readable where they ask for it, and hidden everywhere else.

    Args:
        stages: what follows the search.
        score: which one.
        keep: leave the hidden field in the result, for the pipeline around this one.
    """
    reach = next((place for place, stage in enumerate(stages) if _name(stage) in REGROUPING), len(stages))
    asking = [place for place, stage in enumerate(stages[: reach + 1]) if asks_for_score(stage, score)]
    carried_until = len(stages) if keep else asking[-1] + 1 if asking else 0
    carried = [new for stage in stages[:carried_until] for new in _carried(stage, score)]
    return carried if keep else [*carried, {"$unset": score.field}, *stages[carried_until:]]


def _carried(stage: Stage, score: Score) -> list[Stage]:
    name = _name(stage)
    argument = stage[name]
    match name:
        case "$project":
            return _carried_projection(argument, score)
        case "$sort":
            by = {(score.field if order == score.meta else key): order for key, order in argument.items()}
            return [{name: {key: -1 if order == score.meta else order for key, order in by.items()}}]
        case "$replaceRoot" | "$replaceWith":
            root = argument["newRoot"] if name == "$replaceRoot" else argument
            return [{"$replaceWith": {"$mergeObjects": [_readable(root, score), {score.field: f"${score.field}"}]}}]
        case "$facet":
            return [{name: {output: carry_score(part, score) for output, part in argument.items()}}]
    return [stage] if name in WITH_OWN_DOCUMENTS else [{name: _readable(argument, score)}]


def _name(stage: Mapping[str, Any]) -> str:
    return next(iter(stage), "")


def _readable(expression: Any, score: Score) -> Any:
    """Return an expression that reads the hidden field for the score, and does not see it in the whole document."""
    if isinstance(expression, dict):
        if expression == score.meta:
            return f"${score.field}"
        if "$literal" in expression:
            return expression
        return {key: _readable(value, score) for key, value in expression.items()}
    if isinstance(expression, list):
        return [_readable(element, score) for element in expression]
    if expression in ("$$ROOT", "$$CURRENT"):
        return {"$unsetField": {"field": score.field, "input": expression}}
    return expression


def _carried_projection(fields: Mapping[str, Any], score: Score) -> list[Stage]:
    if _includes(fields, score):
        return [{"$project": {**_readable(fields, score), score.field: 1}}]
    # mongod lets metadata into an excluding projection, but no computed field.
    scores = {key: f"${score.field}" for key, value in fields.items() if value == score.meta}
    excluded = {key: value for key, value in fields.items() if key not in scores}
    return ([{"$set": scores}] if scores else []) + [{"$project": excluded}]


def _includes(fields: Mapping[str, Any], score: Score) -> bool:
    """Return whether a projection includes or excludes fields, as mongod decides it: metadata does not count."""
    kinds = [kind for key, value in fields.items() if key != "_id" and (kind := _kind(value)) is not None]
    if kinds:
        return kinds[0]
    return any(value == score.meta for value in fields.values()) or bool(_kind(fields.get("_id")))


def _kind(value: object) -> bool | None:
    if isinstance(value, bool | int | float):
        return bool(value)
    if not isinstance(value, dict):
        return True
    if any(key.startswith("$") for key in value):
        return None if "$meta" in value else True
    return next((kind for part in value.values() if (kind := _kind(part)) is not None), None)
