import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** A connection into the sandbox, or the reason there is none. */
export type Reach =
  | { readonly kind: "connected"; readonly connection: Duplex }
  | { readonly kind: "starting" | "over"; readonly why: string };
export type Unreached = Exclude<Reach, { readonly kind: "connected" }>;

const retryAfterS = 2;

/** Answers a request with 503, or 502 if the preview will not start again; people get a page. */
export function answerUnreached(
  request: IncomingMessage,
  response: ServerResponse,
  { kind, why: reason }: Unreached,
): void {
  const isStarting = kind === "starting";
  const title = isStarting ? "The preview is starting" : "The preview has ended";
  const isPage = request.headers.accept?.includes("text/html") === true;
  request.resume();
  response.writeHead(isStarting ? 503 : 502, {
    "content-type": isPage ? "text/html; charset=utf-8" : "application/problem+json",
    "cache-control": "no-store",
    connection: "close",
    ...(isStarting ? { "retry-after": String(retryAfterS) } : {}),
  });
  response.end(
    isPage ? page(title, reason, isStarting) : JSON.stringify({ title, code: `preview-${kind}`, detail: reason }),
  );
}

const page = (title: string, reason: string, isStarting: boolean): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
${isStarting ? `<meta http-equiv="refresh" content="${retryAfterS}">` : ""}
<style>body{font:16px/1.5 system-ui,sans-serif;margin:20vh auto;max-width:32rem;padding:0 1rem}p{color:#666}</style>
</head><body><h1>${title}</h1><p>${escapeHtml(reason)}</p></body></html>
`;

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
