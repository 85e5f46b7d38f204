import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { WavesmithError } from "../domain/errors.ts";
import { problem } from "./problem.ts";

/** The time that a request's body may take. */
export interface BodyPatience {
  readonly bodyMs: number;
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal;
}

/**
 * Waits for a request's body. Returns a 408 instead if it does not arrive in time, because a client
 * that sends a byte a second would hold its connection for ever. Fails with `usage` if the client
 * goes away.
 */
export async function bodyInTime<Body>(
  reading: Promise<Body>,
  { bodyMs, stopping }: BodyPatience,
): Promise<Body | Response> {
  let giveUp: () => void = () => undefined;
  const tooSlow = new Promise<Response>((resolve) => {
    giveUp = () => resolve(lateAnswer(bodyMs));
  });
  const timer = setTimeout(giveUp, bodyMs);
  stopping.addEventListener("abort", giveUp, { once: true });
  if (stopping.aborted) giveUp();
  // It fails when the connection is closed after the answer.
  reading.catch(() => undefined);
  try {
    return await Promise.race([reading, tooSlow]);
  } catch (cause) {
    throw new WavesmithError("usage", "the connection ended before the whole body arrived", { cause });
  } finally {
    clearTimeout(timer);
    stopping.removeEventListener("abort", giveUp);
  }
}

/** Reads the body of a request in time, for code that reads it itself; a 408 if it is late. */
export async function withBodyInTime(request: Request, patience: BodyPatience): Promise<Request | Response> {
  if (request.body === null) return request;
  const body = await bodyInTime(request.arrayBuffer(), patience);
  const { url, method, headers } = request;
  return body instanceof Response ? body : new Request(url, { method, headers, body });
}

function lateAnswer(bodyMs: number): Response {
  const detail = `the body did not arrive within ${bodyMs / 1_000} seconds`;
  const answer = problem(408, "timeout", detail, "send it again over a faster connection");
  answer.headers.set("connection", "close");
  return answer;
}

/**
 * Refuses bodies of more than `maxSize` bytes. A body that names no length is read here, in time.
 */
export function limitRequest(
  maxSize: number,
  patience: BodyPatience,
  remedy = "send less in one request",
): MiddlewareHandler {
  const onError = () => problem(413, "too-large", `the body is larger than ${maxSize / 1024 ** 2} MiB`, remedy);
  const limited = bodyLimit({ maxSize, onError });
  return async (context, next) => {
    const refusal = await bodyInTime(
      limited(context, async () => undefined),
      patience,
    );
    return refusal instanceof Response ? refusal : next();
  };
}
