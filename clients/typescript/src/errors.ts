import type { Problem } from "./schema.js";

/** The API refused a request; `problem.type` is the slug to branch on, `problem.detail` says what to do. */
export class ApiError extends Error {
  constructor(
    readonly problem: Problem,
    readonly response: Response,
  ) {
    super(problem.detail);
    this.name = "ApiError";
  }

  /** Seconds to wait before the request is sent again; undefined if the answer does not say it. */
  get retryAfterSeconds(): number | undefined {
    const header = this.response.headers.get("Retry-After");
    return header === null ? undefined : Number(header);
  }
}

/** The events of a run ended without its outcome. */
export class StreamError extends Error {
  override name = "StreamError";
}

/** Read the problem of an answer; an answer of something else, such as a proxy, becomes a problem by its status. */
export async function readProblem(response: Response): Promise<Problem> {
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) return response.json();
  const title = response.statusText || `Status ${response.status}`;
  return {
    type: "http-error",
    title,
    status: response.status,
    detail: `${title}, without a description: it may not come from the API.`,
    request_id: response.headers.get("X-Request-Id") ?? "",
  };
}
