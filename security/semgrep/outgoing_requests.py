import httpx


async def call_a_provider(address):
    # ruleid: provider-called-without-guard
    async with httpx.AsyncClient() as client:
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
