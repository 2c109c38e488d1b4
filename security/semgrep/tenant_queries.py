async def find_of_anyone(database, organization_id: str, run_id):
    # ruleid: tenant-query-without-organization
    return await database["runs"].find_one({"_id": run_id})


async def delete_of_anyone(database, key: MembershipKey):
    # ruleid: tenant-query-without-organization
    await database["document_index"].delete_many({"kb_id": key.kb_id, "document_id": key.document_id})


async def count_chunks_of_anyone(chunks, kb: KnowledgeBase):
    # ruleid: tenant-query-without-organization
    return await chunks.collection.count_documents({"retired": False})


async def sum_of_everyone(database, caller: Caller):
    # ruleid: tenant-query-without-organization
    return await database["spu_ledger"].aggregate([{"$match": {"month": 1}}, {"$group": {"_id": None}}])


async def find_own(database, organization_id: str, run_id):
    # ok: tenant-query-without-organization
    return await database["runs"].find_one({"_id": run_id, "organization_id": organization_id})


async def find_cached(database, key: OrganizationKey, scope):
    # ok: tenant-query-without-organization
    return await database["embedding_cache"].find({"scope": scope}).to_list()


async def sum_own(database, caller: Caller):
    # ok: tenant-query-without-organization
    return await database["spu_ledger"].aggregate([{"$match": {"organization_id": caller.organization_id}}])


async def find_by_key(database, key: MembershipKey):
    # ok: tenant-query-without-organization
    return await database["document_index"].find_one({**of_membership(key), "state": "indexed"})


async def take_up_work_of_all_organizations(database, owner):
    # ok: tenant-query-without-organization
    return await database["index_jobs"].find_one({"state": "queued"})
