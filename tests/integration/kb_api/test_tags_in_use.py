"""Tags show what uses them, and only one that nothing uses can be deleted."""

from tests.integration.kb_api.organization import OrganizationClient


async def test_tags_are_listed_with_the_numbers_of_their_documents_and_knowledge_bases(
    organization: OrganizationClient,
) -> None:
    await organization.tag("a", "b", "c")
    await organization.create(tag_ids=["a", "b"])
    await organization.create(tag_ids=["b"])
    await organization.project("d1", name="n", tag_ids=("b", "c"))
    await organization.project("d2", name="n", tag_ids=("c",))
    listed = (await organization.ok("GET", "/tags"))["tags"]
    counts = {each["tag_id"]: (each["document_count"], each["knowledge_base_count"]) for each in listed}
    assert counts == {"a": (0, 1), "b": (1, 2), "c": (2, 0)}
    renamed = await organization.ok("PUT", "/tags/b", json={"name": "B"})
    assert (renamed["name"], renamed["document_count"], renamed["knowledge_base_count"]) == ("B", 1, 2)


async def test_a_tag_is_deleted_once_no_knowledge_base_and_no_document_has_it(organization: OrganizationClient) -> None:
    await organization.tag("of-kb", "of-document", "free")
    kb_id = (await organization.create(tag_ids=["of-kb"]))["kb_id"]
    await organization.project("d", name="n", tag_ids=("of-document",))
    for tag_id in ("of-kb", "of-document"):
        assert await organization.refused("DELETE", f"/tags/{tag_id}") == (409, "tag-in-use")
    await organization.ok("PUT", f"/knowledge-bases/{kb_id}", json={"tag_ids": []})
    for tag_id in ("of-kb", "free"):
        await organization.ok("DELETE", f"/tags/{tag_id}")
        assert await organization.refused("DELETE", f"/tags/{tag_id}") == (404, "not-found")
    assert [each["tag_id"] for each in (await organization.ok("GET", "/tags"))["tags"]] == ["of-document"]
    unknown = {"name": "n", "tag_ids": ["free"]}
    assert await organization.refused("POST", "/knowledge-bases", json=unknown) == (422, "unknown-tag")
    await organization.ok("POST", "/tags", json={"tag_id": "free", "name": "F"})
    await organization.create(tag_ids=["free"])
