"""Calls of the API as code to copy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ShownSearch:
    """A search that a page has made."""

    base_url: str
    organization_id: str
    kb_id: str | None
    """None: several knowledge bases are searched, which the arguments name."""
    query: str
    arguments: Mapping[str, Any]


def list_samples(search: ShownSearch) -> list[tuple[str, str]]:
    """Return a language and the code in it, for each language."""
    return [("curl", _in_curl(search)), ("Python", _in_python(search)), ("TypeScript", _in_typescript(search))]


def _body(search: ShownSearch) -> str:
    return json.dumps({"query": search.query, **search.arguments}, ensure_ascii=False, indent=2)


def _in_curl(search: ShownSearch) -> str:
    below = "knowledge-bases" if search.kb_id is None else f"knowledge-bases/{search.kb_id}"
    return (
        f'curl -X POST "{search.base_url}/v0/orgs/{search.organization_id}/{below}/search" \\\n'
        '  -H "Authorization: Bearer $KB_API_KEY" -H "Content-Type: application/json" \\\n'
        f"  -d @- <<'END'\n{_body(search)}\nEND"
    )


def _in_python(search: ShownSearch) -> str:
    method = "search_several" if search.kb_id is None else "search"
    positional = [search.query] if search.kb_id is None else [search.kb_id, search.query]
    given = [*map(repr, positional), *(f"{name}={value!r}" for name, value in search.arguments.items())]
    lines = "".join(f"        {each},\n" for each in given)
    return (
        "from kb_client import Client\n\n"
        "# The key is in KB_API_KEY.\n"
        f"with Client({search.base_url!r}, organization={search.organization_id!r}) as client:\n"
        f"    found = client.knowledge_bases.{method}(\n{lines}    )\n"
        "    for result in found.results:\n        print(result.source, result.content)"
    )


def _in_typescript(search: ShownSearch) -> str:
    names = f'baseUrl: "{search.base_url}", organization: "{search.organization_id}"'
    if search.kb_id is None:
        path, parameters = "/knowledge-bases/search", ""
    else:
        path = "/knowledge-bases/{kb_id}/search"
        parameters = f'\n  params: {{ path: {{ kb_id: "{search.kb_id}" }} }},'
    body = _body(search).replace("\n", "\n  ")
    return (
        'import { createClient } from "@kb/client";\n\n'
        f"const kb = createClient({{ {names}, apiKey: process.env.KB_API_KEY! }});\n"
        f'const {{ data }} = await kb.POST("{path}", {{{parameters}\n  body: {body},\n}});\n'
        "for (const result of data?.results ?? []) console.log(result.source, result.content);"
    )
