import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span as OTLP writes it in JSON. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
  readonly status: { readonly code?: number; readonly message?: string };
}

export interface OtlpReceiver {
  readonly url: string;
  /** The accepted spans, in order. */
  readonly spans: ReceivedSpan[];
  readonly headers: Record<string, unknown>[];
  /** Answers with this status from now on; anything but 200 accepts nothing. */
  answer(status: number): void;
  /** Requests that were refused. */
  refused(): number;
  close(): Promise<void>;
}

/** A collector that accepts OTLP over HTTP as JSON. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  let status = 200;
  let refused = 0;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      if (request.url !== "/v1/traces" || request.method !== "POST") status = 404;
      if (status === 200) {
        const { resourceSpans } = JSON.parse(text) as {
          resourceSpans: { scopeSpans: { spans: ReceivedSpan[] }[] }[];
        };
        spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
        headers.push(request.headers);
      } else refused += 1;
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    headers,
    answer: (next) => {
      status = next;
    },
    refused: () => refused,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

/** The path from the root to each span, by names; fails for a span without a parent. */
export function pathsOf(spans: readonly ReceivedSpan[]): string[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const pathOf = (span: ReceivedSpan): string => {
    if (span.parentSpanId === undefined) return span.name;
    const parent = byId.get(span.parentSpanId);
    if (parent === undefined) throw new Error(`${span.name} has no parent`);
    return `${pathOf(parent)} > ${span.name}`;
  };
  return spans.map(pathOf).sort();
}
