import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { problem } from "./problem.ts";

/** The time that a request's body may take. */
export interface BodyPatience {
  readonly bodyMs: number;
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal;
}

/**
 * Waits for a request's body. Returns a 408 instead if it does not arrive in time, because a client
 * that sends a byte a second would hold its connection for ever.
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
  } finally {
    clearTimeout(timer);
    stopping.removeEventListener("abort", giveUp);
  }
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
export function limitRequest(maxSize: number, patience: BodyPatience, remedy: string | null = null): MiddlewareHandler {
  const onError = () => problem(413, "too-large", `the body is larger than ${maxSize} bytes`, remedy);
  const limited = bodyLimit({ maxSize, onError });
  return async (context, next) => {
    let pass: () => void = () => undefined;
    const passed = new Promise<void>((resolve) => {
      pass = resolve;
    });
    const answered = limited(context, async () => {
      pass();
      await next();
    });
    const refusal = await bodyInTime(Promise.race([passed, answered]), patience);
    return refusal instanceof Response ? refusal : answered;
  };
}
