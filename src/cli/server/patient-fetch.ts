import { type IncomingMessage, request as overHttp } from "node:http";
import { request as overHttps } from "node:https";
import { buffer } from "node:stream/consumers";

/** The system probes the connection after this much silence, so that a lost server is noticed. */
const probeAfterMs = 60_000;

const statusesWithoutBody: readonly number[] = [204, 205, 304];

/**
 * Sends a request and reads the whole answer, as `fetch` does, but waits for it without a limit.
 * Node's `fetch` fails if an answer does not begin within 5 minutes, and a snapshot of a large
 * volume takes longer. Follows no redirect.
 */
export async function fetchPatiently(request: Request): Promise<Response> {
  const body = Buffer.from(await request.arrayBuffer());
  const answer = await answerTo(request, body);
  const bytes = await buffer(answer);
  const status = answer.statusCode!; // Node sets it on every answer.
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(answer.headersDistinct)) {
    for (const value of values) headers.append(name, value);
  }
  const response = new Response(statusesWithoutBody.includes(status) ? null : bytes, { status, headers });
  // A response that we make has no address of its own, and messages name it.
  return Object.defineProperty(response, "url", { value: request.url });
}

const answerTo = ({ url, method, headers, signal }: Request, body: Buffer): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? overHttps : overHttp;
    const sending = send(url, { method, headers: Object.fromEntries(headers), signal, agent: false });
    sending.setSocketKeepAlive(true, probeAfterMs);
    sending.on("response", resolve);
    sending.on("error", reject);
    sending.end(body);
  });
