import httpx


async def call_a_provider(address):
    # ruleid: provider-called-without-guard
    async with httpx.AsyncClient() as client:
        return await client.post(address)


async def call_an_address_that_an_organization_names(transport_to_named_addresses, address):
    # ok: provider-called-without-guard
    async with httpx.AsyncClient(transport=transport_to_named_addresses(private=False), timeout=5) as client:
        return await client.post(address)


async def call_through_the_guard(provider, texts):
    # ok: provider-called-without-guard
    return await provider.embed(texts)


def connect(connect_to, context):
    # ruleid: tls-without-verification
    connect_to("mongodb://host", tlsAllowInvalidCertificates=True)
    # ruleid: tls-without-verification
    context.check_hostname = False
    # ok: tls-without-verification
    connect_to("mongodb://host", tlsCAFile="/etc/ca.pem")
