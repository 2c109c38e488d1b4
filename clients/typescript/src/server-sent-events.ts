export interface ServerSentEvent {
  event: string;
  data: string;
}

/** Parse a stream of server-sent events. A line may end anywhere in a piece; comments are passed over. */
export async function* parseServerSentEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  let event = "message";
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield { event, data: data.join("\n") };
      [event, data] = ["message", []];
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const complete = rest.split(/\r\n|\n|\r(?!$)/);
      rest = complete.pop() ?? "";
      yield* complete;
      if (done) return;
    }
  } finally {
    // Also if the caller leaves its loop: closing the connection stops a run.
    await reader.cancel();
  }
}
