"""A push sends what differs, deletes what is gone, and is finished when it has been carried out."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.document_ids import id_prefix, make_document_id
from kb_client.files.push_plan import PushedDocument, PushPlan, plan_push

SOURCES = ("docs", "other docs", "docs2")
ids = st.builds(
    lambda source, name: make_document_id(source, relative_path=name), st.sampled_from(SOURCES), st.sampled_from("abcd")
)
digests = st.sampled_from(["1", "2"])
tags = st.frozensets(st.sampled_from(["x", "y", "z"]))
servers = st.dictionaries(ids, st.tuples(digests | st.none(), tags)).map(
    lambda rows: {each: PushedDocument(each, digest, tag_ids) for each, (digest, tag_ids) in rows.items()}
)
folders = st.dictionaries(ids, digests)
sources = st.frozensets(st.sampled_from(SOURCES))


def carry_out(plan: PushPlan, server: dict[str, PushedDocument], found: dict[str, str]) -> dict[str, PushedDocument]:
    sent = {each: PushedDocument(each, found[each], tag_ids) for each, tag_ids in plan.sends.items()}
    retagged = {each: replace(server[each], tag_ids=tag_ids) for each, tag_ids in plan.retags.items()}
    return {each: row for each, row in {**server, **sent, **retagged}.items() if each not in plan.deletes}


@given(servers, folders, tags, sources)
def test_after_a_push_the_server_has_all_files_and_a_second_push_does_nothing(
    server: dict[str, PushedDocument], found: dict[str, str], tag_ids: frozenset[str], prune: frozenset[str]
) -> None:
    plan = plan_push(server.values(), found, tag_ids=tag_ids, prune_sources=prune)
    after = carry_out(plan, server, found)
    assert {each: after[each].source_digest for each in found} == found
    assert all(tag_ids <= after[each].tag_ids for each in found)
    again = plan_push(after.values(), found, tag_ids=tag_ids, prune_sources=prune)
    assert (again.sends, again.retags, again.deletes, again.unchanged) == ({}, {}, frozenset(), frozenset(found))


@given(servers, folders, tags, sources)
def test_nothing_is_sent_that_the_server_has_and_no_tag_of_others_is_lost(
    server: dict[str, PushedDocument], found: dict[str, str], tag_ids: frozenset[str], prune: frozenset[str]
) -> None:
    plan = plan_push(server.values(), found, tag_ids=tag_ids, prune_sources=prune)
    assert not any(each in server and server[each].source_digest == found[each] for each in plan.sends)
    assert all(after >= server[each].tag_ids for each, after in {**plan.sends, **plan.retags}.items() if each in server)
    assert plan.sends.keys() | plan.retags.keys() | plan.unchanged == found.keys()


@given(servers, folders, tags, sources, st.frozensets(ids))
def test_only_pushed_documents_of_pruned_folders_whose_files_are_gone_are_deleted(
    server: dict[str, PushedDocument],
    found: dict[str, str],
    tag_ids: frozenset[str],
    prune: frozenset[str],
    kept: frozenset[str],
) -> None:
    plan = plan_push(server.values(), found, tag_ids=tag_ids, prune_sources=prune, kept=kept)
    of_pruned = {each for each in server if any(each.startswith(id_prefix(source)) for source in prune)}
    of_others = {each for each in server if not server[each].tag_ids & tag_ids}
    without_file = {each for each in server if server[each].source_digest is None}
    assert plan.deletes == of_pruned - of_others - without_file - found.keys() - kept


def test_a_folder_without_any_file_is_named_since_its_disk_may_be_missing() -> None:
    document_id = make_document_id("docs", relative_path="a.md")
    stored = [PushedDocument(document_id, "1", frozenset(["docs"]))]
    plan = plan_push(stored, {}, tag_ids=["docs"], prune_sources=["docs", "docs2"])
    assert (set(plan.deletes), set(plan.emptied_sources)) == ({document_id}, {"docs"})


PARTS = ("docs.a-1.p00000001", "docs.a-1.p00000002")


def stored_in_parts(*ids: str, digest: str = "1+2") -> list[PushedDocument]:
    first = PushedDocument("docs.a-1", digest, frozenset(["docs"]))
    return [first, *(PushedDocument(each, "part", frozenset(["docs"])) for each in ids)]


def test_a_file_in_parts_is_unchanged_if_all_of_them_are_there() -> None:
    whole = plan_push(stored_in_parts(*PARTS), {"docs.a-1": "1"}, tag_ids=["docs"], prune_sources=["docs"])
    assert (set(whole.unchanged), whole.sends, set(whole.deletes)) == ({"docs.a-1"}, {}, set())
    for incomplete in (stored_in_parts(PARTS[0]), stored_in_parts(*PARTS, digest="2+2")):
        plan = plan_push(incomplete, {"docs.a-1": "1"}, tag_ids=["docs"], prune_sources=["docs"])
        assert (set(plan.sends), set(plan.deletes)) == ({"docs.a-1"}, set())


def test_parts_get_tags_and_are_deleted_with_their_file() -> None:
    stored = stored_in_parts(*PARTS)
    tagged = plan_push(stored, {"docs.a-1": "1"}, tag_ids=["new"])
    assert set(tagged.retags) == {"docs.a-1", *PARTS}
    assert set(plan_push(stored, {}, tag_ids=["docs"], prune_sources=["docs"]).deletes) == {"docs.a-1", *PARTS}
    assert set(plan_push(stored, {}, tag_ids=["docs"], gone=["docs.a-1"]).deletes) == {"docs.a-1", *PARTS}
    kept = plan_push(stored, {}, tag_ids=["docs"], prune_sources=["docs"], kept=["docs.a-1"])
    assert kept.deletes == frozenset()


def test_a_document_whose_file_could_not_be_read_is_kept() -> None:
    stored = [PushedDocument("docs.a-1", "1", frozenset(["docs"]))]
    plan = plan_push(stored, {}, tag_ids=["docs"], prune_sources=["docs"], kept=["docs.a-1"])
    assert (plan.deletes, plan.emptied_sources) == (frozenset(), frozenset())
