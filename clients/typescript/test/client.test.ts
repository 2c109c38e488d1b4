/** Against a running system, whose address and key are in the environment. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { before, test } from "node:test";

import {
  ApiError,
  createClient,
  pages,
  StreamError,
  type EntrySearchOptions,
  type KnowledgeBases,
} from "../src/index.js";

const tagId = `ts-${randomUUID().slice(0, 8)}`;
const documentId = `${tagId}-leave`;
let kb: KnowledgeBases;
let kb_id: string;

function setting(name: string): string {
  const value = process.env[name];
  assert.ok(value, `set ${name}`);
  return value;
}

before(async () => {
  kb = createClient({
    baseUrl: `${setting("KB_BASE_URL")}/`,
    organization: setting("KB_ORGANIZATION"),
    apiKey: setting("KB_API_KEY"),
  });
  await kb.POST("/tags", { body: { tag_id: tagId, name: tagId } });
  const { data } = await kb.POST("/knowledge-bases", { body: { name: tagId, tag_ids: [tagId] } });
  assert.ok(data);
  kb_id = data.kb_id;
  await kb.PUT("/documents/{document_id}", {
    params: { path: { document_id: documentId } },
    body: {
      document_name: "leave.md",
      text: "Employees have 30 days of leave a year.",
      tag_ids: [tagId],
      upload_date: "2026-01-31T12:00:00Z",
    },
  });
  const { data: document } = await kb.GET("/documents/{document_id}", {
    params: { path: { document_id: documentId }, query: { wait: "searchable", timeout_s: 30 } },
  });
  assert.equal(document?.searchable, true);
});

test("a search finds what was sent", async () => {
  const { data } = await kb.POST("/knowledge-bases/{kb_id}/search", {
    params: { path: { kb_id } },
    body: { query: "days of leave", metadata_filter: { document_name: "leave.md" } },
  });
  assert.equal(data?.results[0]?.document_id, documentId);
  // @ts-expect-error: types know the fields of an answer.
  assert.equal(data.results[0].document_title, undefined);
});

test("a refused request throws its problem", async () => {
  const missing = kb.GET("/knowledge-bases/{kb_id}", { params: { path: { kb_id: "000000000000000000000000" } } });
  await assert.rejects(missing, (error) => error instanceof ApiError && error.problem.type === "not-found");
  // @ts-expect-error: types know the fields of a request.
  const wrong = kb.POST("/knowledge-bases/search", { body: { query: "leave", top_k: "3" } });
  await assert.rejects(wrong, (error) => error instanceof ApiError && error.problem.fields?.[0]?.field === "top_k");
});

test("an answer that is no problem becomes one by its status", async () => {
  const elsewhere = createClient({
    baseUrl: "http://kb",
    organization: "acme",
    apiKey: "kb_0_0",
    fetch: async () => new Response("<h1>Bad gateway</h1>", { status: 502, headers: { "Retry-After": "3" } }),
  });
  await assert.rejects(
    elsewhere.GET("/tags"),
    (error) => error instanceof ApiError && error.problem.status === 502 && error.retryAfterSeconds === 3,
  );
});

test("entries are searched, also only those of some types", async () => {
  const added = await Promise.all(
    (["rule", "decision"] as const).map((type) =>
      kb.POST("/knowledge-entries", {
        body: { entry_id: `${tagId}-${type}`, title: type, content: `${tagId}: a night in Lisbon`, type },
      }),
    ),
  );
  for (const { data } of added) await untilReady(data!.entry_id);
  const found = async (options?: EntrySearchOptions) =>
    (await kb.knowledge.search(`night in Lisbon ${tagId}`, options)).hits.map((hit) => hit.entry_id);
  assert.deepEqual(new Set(await found({ limit: 2 })), new Set([`${tagId}-rule`, `${tagId}-decision`]));
  assert.deepEqual(await found({ limit: 1, types: ["decision", "pattern"] }), [`${tagId}-decision`]);
  await assert.rejects(found({ limit: 101 }), (error) => error instanceof ApiError && error.problem.status === 422);
});

async function untilReady(entry_id: string): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const { data } = await kb.GET("/knowledge-entries/{entry_id}", { params: { path: { entry_id } } });
    if (data?.embedding_status === "ready") return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`${entry_id} is not searchable`);
}

test("a streamed run yields typed events to its end", async () => {
  const names: string[] = [];
  for await (const { event, data } of kb.streamRun({ messages: [{ role: "user", content: "Leave?" }], kb_id })) {
    names.push(event);
    if (event === "run.finished") assert.equal(data.status, "completed");
  }
  assert.equal(names[0], "run.started");
  assert.equal(names.at(-1), "run.finished");
});

test("a stream that breaks throws, also in the middle of a character", async () => {
  const bytes = new TextEncoder().encode('event: answer.delta\r\ndata: {"iteration": 1, "text": "größer"}\r\n\r\n');
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const broken = createClient({
    baseUrl: "http://kb",
    organization: "acme",
    apiKey: "kb_0_0",
    fetch: async () => new Response(body, { headers: { "Content-Type": "text/event-stream" } }),
  });
  const seen: unknown[] = [];
  const follow = async () => {
    for await (const event of broken.streamRun({ prompt_id: "0" })) seen.push(event);
  };
  await assert.rejects(follow, StreamError);
  assert.deepEqual(seen, [{ event: "answer.delta", data: { iteration: 1, text: "größer" } }]);
});

test("pages follow one another, by number and by cursor", async () => {
  await Promise.all([1, 2, 3].map((n) => kb.POST("/tags", { body: { tag_id: `${tagId}-${n}`, name: `${n}` } })));
  const tags: string[] = [];
  const load = (page: { skip?: number }) =>
    kb.GET("/tags", { params: { query: { ...page, limit: 2, name_search: tagId } } });
  for await (const tag of pages(load, (page) => page.tags)) tags.push(tag.tag_id);
  assert.deepEqual(tags, [...new Set(tags)]);
  const entries: string[] = [];
  const loadEntries = (page: { cursor?: string }) => kb.GET("/audit", { params: { query: { ...page, limit: 2 } } });
  for await (const entry of pages(loadEntries, (page) => page.entries)) entries.push(entry.entry_id);
  assert.ok(entries.length > 2);
  assert.equal(new Set(entries).size, entries.length);
});
