async def search_with_any_operator(database, request, organization_id):
    criteria = {"organization_id": organization_id, **request.metadata_filter}
    # ruleid: raw-filter-reaches-mongodb
    return await database["documents"].find(criteria).to_list()


async def count_with_any_operator(database, request):
    body = await request.json()
    # ruleid: raw-filter-reaches-mongodb
    return await database["documents"].count_documents(body["filter"])


async def search_with_clauses(database, request, organization_id):
    clauses = compile_filter(request.metadata_filter)
    # ok: raw-filter-reaches-mongodb
    return await database["documents"].find({"organization_id": organization_id, **clauses}).to_list()


async def sleep_in_the_server(database):
    # ruleid: javascript-in-query
    return await database["documents"].find_one({"$where": "sleep(1000)"})


async def compare_in_the_server(database):
    # ok: javascript-in-query
    return await database["documents"].find_one({"$expr": {"$lt": ["$a", "$b"]}})
