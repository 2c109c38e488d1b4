"""Replacing search stages in a pipeline by stages that any mongod understands."""

from collections.abc import Sequence
from typing import Any, Protocol

from kb_local.search_node.change_feed import Namespace
from kb_local.search_node.errors import CommandError
from kb_local.search_node.hits import Hits
from kb_local.search_node.query import VectorQuery, parse_query
from kb_local.search_node.score import (
    TEXT_SCORE,
    VECTOR_SCORE,
    Score,
    Stage,
    asks_for_score,
    carry_score,
    hits_as_stages,
)
from kb_local.search_node.search_meta import with_meta
from kb_local.search_node.text_index import TextAnswer
from kb_local.search_node.text_query import TextQuery, parse_text_query

VECTOR_SEARCH = "$vectorSearch"
SEARCH = "$search"
SEARCH_META = "$searchMeta"
FIRST_STAGES = (VECTOR_SEARCH, SEARCH, SEARCH_META, "$listSearchIndexes")
# Stages that give a document for each one they get.
ONE_TO_ONE = frozenset({"$project", "$set", "$addFields", "$unset", "$replaceRoot", "$replaceWith"})
# Hits beyond a limit, in place of those whose documents went so lately that the node has not heard of it.
SPARE_HITS = 20


class Searches(Protocol):
    """Answers the search stages of a pipeline."""

    async def vector(self, namespace: Namespace, query: VectorQuery) -> Hits: ...

    async def text(self, namespace: Namespace, query: TextQuery, *, most: int | None) -> TextAnswer: ...


def search_stage_of(pipeline: Sequence[Stage]) -> str | None:
    """Return the name of a search stage anywhere in the pipeline, sub-pipelines included."""
    for stage in pipeline:
        for name, argument in stage.items():
            if name in FIRST_STAGES:
                return name
            for part in _sub_pipelines(name, argument):
                if (found := search_stage_of(part)) is not None:
                    return found
    return None


def check_placement(pipeline: Sequence[Stage]) -> None:
    """Refuse search stages where Atlas refuses them."""
    for place, stage in enumerate(pipeline):
        for name, argument in stage.items():
            if name in FIRST_STAGES and place:
                raise CommandError(40602, "Location40602", f"{name} is only valid as the first stage in a pipeline")
            for part in _sub_pipelines(name, argument):
                _check_sub_pipeline(name, part)


def _check_sub_pipeline(owner: str, pipeline: Sequence[Stage]) -> None:
    check_placement(pipeline)
    found = search_stage_of(pipeline)
    if found is not None and owner == "$facet":
        raise CommandError(40600, "Location40600", f"{found} is not allowed to be used within a $facet stage")
    if found not in (None, SEARCH, SEARCH_META) and owner == "$lookup":
        raise CommandError(51047, "Location51047", f"{found} is not allowed within a $lookup's sub-pipeline")


def _sub_pipelines(name: str, argument: Any) -> list[list[Stage]]:
    if not isinstance(argument, dict):
        return []
    if name == "$facet":
        return [part for part in argument.values() if isinstance(part, list)]
    if name in ("$lookup", "$unionWith") and isinstance(argument.get("pipeline"), list):
        return [argument["pipeline"]]
    return []


async def rewrite_pipeline(
    pipeline: Sequence[Stage], namespace: Namespace, *, searches: Searches, keep: frozenset[Score] = frozenset()
) -> list[Stage]:
    """Return the pipeline with every search done; the placement of stages has been checked.

    It begins with `$documents` if it began with `$searchMeta`.

    Args:
        pipeline: a pipeline or a sub-pipeline.
        namespace: the collection it runs on.
        searches: finds the hits of a query.
        keep: scores whose hidden fields stay in the documents, because the pipeline around this one asks for them.
    """
    rest = list(pipeline)
    head, rest = await _head(rest, namespace, searches=searches)
    rest = [
        await _with_sub_pipeline(stage, rest[place + 1 :], namespace=namespace, searches=searches, keep=keep)
        for place, stage in enumerate(rest)
    ]
    for score in (VECTOR_SCORE, TEXT_SCORE):
        if _may_have(score, [*pipeline]):
            rest = carry_score(rest, score, keep=score in keep)
    return head + rest


async def _head(pipeline: list[Stage], namespace: Namespace, *, searches: Searches) -> tuple[list[Stage], list[Stage]]:
    """Return the stages for the search that the pipeline begins with, if it does, and those that follow."""
    first = pipeline[0] if pipeline else {}
    if VECTOR_SEARCH in first:
        hits = await searches.vector(namespace, parse_query(first[VECTOR_SEARCH]))
        return hits_as_stages(hits, VECTOR_SCORE), pipeline[1:]
    if SEARCH in first:
        query = parse_text_query(first[SEARCH])
        found = await searches.text(namespace, query, most=_wanted_hits(pipeline[1:]))
        meta = {"count": query.count.match_counts(found.matches)}
        return hits_as_stages(found.hits, TEXT_SCORE), with_meta(pipeline[1:], meta)
    if SEARCH_META in first:
        query = parse_text_query(first[SEARCH_META])
        found = await searches.text(namespace, query, most=0)
        # Without an index the count is a total, whatever was asked for.
        count = query.count.match_counts(found.matches) if found.has_index else {"total": 0}
        return [{"$documents": [{"$literal": {"count": count}}]}], pipeline[1:]
    return [], pipeline


def _wanted_hits(stages: Sequence[Stage]) -> int | None:
    """Return how many hits the stages after a search can use; None if that depends on the documents."""
    skipped = 0
    for stage in stages:
        for name, argument in stage.items():
            if name == "$limit" and isinstance(argument, int):
                return skipped + argument + SPARE_HITS
            if name == "$skip" and isinstance(argument, int):
                skipped += argument
            elif name not in ONE_TO_ONE:
                return None
    return None


async def _with_sub_pipeline(
    stage: Stage, following: Sequence[Stage], *, namespace: Namespace, searches: Searches, keep: frozenset[Score]
) -> Stage:
    """Return the stage with the searches in its sub-pipeline done."""
    for name, key in (("$unionWith", "coll"), ("$lookup", "from")):
        owner = stage.get(name)
        if not isinstance(owner, dict) or search_stage_of(owner.get("pipeline", ())) is None:
            continue
        if name == "$unionWith":
            keep |= {score for score in (VECTOR_SCORE, TEXT_SCORE) if asks_for_score(list(following), score)}
        else:
            keep = frozenset()
        target = Namespace(namespace.database, owner.get(key, namespace.collection))
        rewritten = await rewrite_pipeline(owner["pipeline"], target, searches=searches, keep=keep)
        own = {option: value for option, value in owner.items() if option != key or not _has_own_documents(rewritten)}
        return {name: own | {"pipeline": rewritten}}
    return stage


def _has_own_documents(pipeline: Sequence[Stage]) -> bool:
    return bool(pipeline) and "$documents" in pipeline[0]


def _may_have(score: Score, pipeline: Sequence[Stage]) -> bool:
    """Return whether documents of the pipeline can have the hidden field."""
    names = (VECTOR_SEARCH,) if score is VECTOR_SCORE else (SEARCH,)
    if pipeline and any(name in pipeline[0] for name in names):
        return True
    unions = [stage["$unionWith"] for stage in pipeline if isinstance(stage.get("$unionWith"), dict)]
    return any(_may_have(score, union.get("pipeline", ())) for union in unions)
