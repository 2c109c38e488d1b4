"""A push says how far it is in passages, and how long it takes as soon as that is known, and not before."""

from typing import Any

import pytest

from kb_client.command_line.counts import describe_seconds
from kb_client.command_line.documents import describe_status
from kb_client.command_line.knowledge_bases import describe_progress
from kb_client.command_line.push.indexing_watch import IndexingWatch
from kb_client.command_line.push.send import describe_indexing
from kb_contracts.api.knowledge_bases import KnowledgeBaseStats, KnowledgeBaseView
from tests.unit.client.command_line.test_push_outcomes import view

KB: Any = KnowledgeBaseView.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index]
STATS: Any = KnowledgeBaseStats.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index]


def a_kb(chunks: int = 0) -> KnowledgeBaseView:
    return KnowledgeBaseView.model_validate(KB | {"chunk_count": chunks, "embedding_model": "bundled"})


def stats(*, done: int, left: int, undone: int, eta_s: float | None = None) -> KnowledgeBaseStats:
    states = STATS["states"] | {"running": undone, "pending": 0, "paused": 0}
    share = done / (done + left)
    return KnowledgeBaseStats.model_validate(
        STATS
        | {"chunk_count": done, "progress": share, "remaining_chunk_count": left, "eta_s": eta_s, "states": states}
    )


def test_the_passages_that_were_there_before_are_not_those_of_the_push() -> None:
    watch = IndexingWatch(a_kb(1_000))
    watch.look(stats(done=1_200, left=600, undone=5), all_sent=True)
    assert (watch.passages_done, watch.passages) == (200, 800)
    watch.look(stats(done=1_800, left=0, undone=0), all_sent=True)
    assert (watch.passages_done, watch.passages) == (800, 800)


def test_no_time_is_told_while_documents_are_on_their_way_to_the_server() -> None:
    watch = IndexingWatch(a_kb())
    seconds: list[float | None] = []
    for undone, all_sent in ((3, False), (5, True), (8, True), (8, True), (7, True)):
        watch.look(stats(done=1, left=99, undone=undone, eta_s=50), all_sent=all_sent)
        seconds.append(watch.seconds_left)
    assert seconds == [None, None, None, 50, 50]


def test_it_is_said_once_how_long_the_whole_takes_with_which_model() -> None:
    watch = IndexingWatch(a_kb())
    watch.look(stats(done=0, left=3_500, undone=5), all_sent=True)
    watch.look(stats(done=0, left=3_500, undone=5), all_sent=True)
    assert watch.announcement is None, "no pace is known"
    watch.look(stats(done=100, left=3_400, undone=5, eta_s=540), all_sent=True)
    said = "about 3,400 passages to index with bundled, at its pace here: about 9 min"
    assert watch.announcement == said
    watch.look(stats(done=200, left=3_300, undone=5, eta_s=400), all_sent=True)
    assert watch.announcement == said


def test_what_takes_a_moment_only_is_not_announced() -> None:
    watch = IndexingWatch(a_kb())
    for _ in range(2):
        watch.look(stats(done=0, left=20, undone=2, eta_s=3), all_sent=True)
    assert watch.announcement is None


def test_a_large_document_that_gets_vectors_is_progress_though_none_is_done() -> None:
    watch = IndexingWatch(a_kb())
    moved: list[bool] = []
    for left in (100, 100, 92, 92):
        watch.look(stats(done=8, left=left, undone=1), all_sent=True)
        moved.append(watch.has_moved)
    assert moved[1:] == [False, True, False]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "about 5 s"),
        (12, "about 10 s"),
        (54, "about 55 s"),
        (56, "about 1 min"),
        (540, "about 9 min"),
        (6_000, "about 1.7 h"),
    ],
)
def test_a_time_is_no_more_exact_than_an_estimate(seconds: float, said: str) -> None:
    assert describe_seconds(seconds) == said


def test_a_document_says_how_far_it_is_in_the_knowledge_base_where_it_is_least_far() -> None:
    assert describe_indexing(view({"status": "pending"})) == "indexing"
    far, near = {"chunk_count": 600, "embedded_count": 240}, {"chunk_count": 600, "embedded_count": 500}
    shown = view({"status": "running", "embedding": near}, {"status": "running", "embedding": far})
    assert describe_indexing(shown) == "indexing, 240 of 600 passages,"


def test_nothing_is_all_before_it_is_done() -> None:
    assert describe_progress(stats(done=9_999, left=1, undone=1)) == "99%, about 1 passage left"
    assert describe_progress(stats(done=9_999, left=0, undone=0)) == "100%"


def test_a_share_of_what_has_arrived_is_told_as_such() -> None:
    arriving = stats(done=94, left=6, undone=1).model_copy(update={"more_arriving": True})
    assert describe_progress(arriving) == "94%, about 6 passages left, and more documents are arriving"


def test_a_document_shows_how_far_it_is_beside_its_state() -> None:
    [place] = view({"status": "running", "embedding": {"chunk_count": 600, "embedded_count": 240}}).knowledge_bases
    assert describe_status(place) == "running, 240 of 600 passages"
    [place] = view({"status": "running"}).knowledge_bases
    assert describe_status(place) == "running"
