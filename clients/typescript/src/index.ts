/** Typed client of the knowledge base API: paths, parameters and answers are those of its OpenAPI document. */

import createFetchClient, { type Client, type ClientOptions } from "openapi-fetch";

import { ApiError, readProblem, StreamError } from "./errors.js";
import type { OrganizationPaths } from "./organization-paths.js";
import type { EntrySearchResponse, RunEvent, RunRequest } from "./schema.js";
import { parseServerSentEvents } from "./server-sent-events.js";

export { ApiError, StreamError } from "./errors.js";
export { pages } from "./pages.js";
export type * from "./schema.js";

export interface KnowledgeBasesOptions {
  /** Address of the API, such as `https://kb.example.com`. */
  baseUrl: string;
  organization: string;
  apiKey: string;
  /** Used instead of the global `fetch`. */
  fetch?: ClientOptions["fetch"];
}

export interface EntrySearchOptions {
  /** Greatest number of hits, 1 to 100; by default 20. */
  limit?: number;
  /** Only entries with one of these types, or from a source of one of these kinds. */
  types?: readonly string[];
  /** Agent that asks, for the query log. */
  agentId?: string;
  signal?: AbortSignal;
}

/** Knowledge that people wrote or had fetched. */
export interface Knowledge {
  /** Search entries by meaning and by words. The hits are ordered by `score`. */
  search(text: string, options?: EntrySearchOptions): Promise<EntrySearchResponse>;
}

export type KnowledgeBases = Client<OrganizationPaths, "application/json"> & {
  /**
   * Begin a run and yield its events, of which `run.finished` is the last. Leaving the loop stops the run.
   *
   * @throws ApiError: the API refused the run.
   * @throws StreamError: the connection ended before the run.
   */
  streamRun(request: RunRequest, options?: { signal?: AbortSignal }): AsyncGenerator<RunEvent, void, undefined>;
  knowledge: Knowledge;
};

/**
 * Create a client of one organization. Its methods are `GET`, `PUT`, `POST`, `PATCH` and `DELETE`; paths begin after
 * `/v0/orgs/{organization_id}`. They return `data`; an answer with an error throws `ApiError`.
 */
export function createClient(options: KnowledgeBasesOptions): KnowledgeBases {
  const { apiKey, organization } = options;
  const client = createFetchClient<OrganizationPaths, "application/json">({
    baseUrl: `${options.baseUrl.replace(/\/+$/, "")}/v0/orgs/${encodeURIComponent(organization)}`,
    headers: { Authorization: `Bearer ${apiKey}`, "X-KB-Origin": "sdk" },
    ...(options.fetch && { fetch: options.fetch }),
  });
  client.use({
    async onResponse({ response }) {
      if (!response.ok) throw new ApiError(await readProblem(response), response);
    },
  });
  async function* streamRun(request: RunRequest, { signal }: { signal?: AbortSignal } = {}) {
    const { data: body } = await client.POST("/runs", {
      body: request,
      headers: { Accept: "text/event-stream" },
      parseAs: "stream",
      ...(signal && { signal }),
    });
    if (!body) throw new StreamError("the answer has no body");
    for await (const { event, data } of parseServerSentEvents(body)) {
      yield { event, data: JSON.parse(data) } as RunEvent;
      if (event === "run.finished") return;
    }
    throw new StreamError("the connection was closed before the run ended");
  }
  const knowledge: Knowledge = {
    async search(text, { limit, types, agentId, signal } = {}) {
      const query = {
        q: text,
        ...(limit !== undefined && { limit }),
        ...(types?.length && { types: types.join(",") }),
        ...(agentId !== undefined && { agent_id: agentId }),
      };
      const { data } = await client.GET("/knowledge/search", { params: { query }, ...(signal && { signal }) });
      return data!;
    },
  };
  return Object.assign(client, { streamRun, knowledge });
}
