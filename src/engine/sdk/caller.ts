import type { Inngest, InngestFunction } from "inngest";
import { serve } from "inngest/edge";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { EngineJob } from "../scheduling/claims.ts";
import { type CallResponse, type FunctionConfig, serializedError, syncSchema } from "./protocol.ts";

/** Calls functions through the SDK's own handler, in this process. */
export interface FunctionCaller {
  /** Returns the functions that the SDK registers, through its in-band sync. */
  configs(): Promise<readonly FunctionConfig[]>;
  /** Runs one call; an unreadable answer counts as a failed attempt. */
  call(job: EngineJob, maxAttempts: number): Promise<CallResponse>;
}

// The SDK's handler builds absolute URLs from this host, but never sends a request to it.
const host = "wavesmith-engine.invalid";
const url = `http://${host}/api/inngest`;
const headers = { host, "content-type": "application/json" };

/** Wraps the client's functions; the client's `fetch` must be the engine's. */
export function createCaller(client: Inngest.Any, functions: readonly InngestFunction.Any[]): FunctionCaller {
  const handler = serve({ client, functions });
  return {
    async configs() {
      const request = new Request(url, {
        method: "PUT",
        headers: { ...headers, "x-inngest-sync-kind": "in_band" },
        body: JSON.stringify({ url }),
      });
      const response = await handler(request);
      const body = await response.text();
      const parsed = response.status === 200 ? syncSchema.safeParse(JSON.parse(body)) : null;
      if (parsed?.success) return parsed.data.functions;
      throw new WavesmithError(
        "engine",
        `the Inngest SDK did not register its functions: ${parsed?.error.message ?? body}`,
      );
    },
    async call(job, maxAttempts) {
      try {
        return await answerOf(await handler(requestOf(job, maxAttempts)));
      } catch (error) {
        return { status: 500, noRetry: false, retryAfter: null, body: serializedError("Error", messageOf(error)) };
      }
    },
  };
}

function requestOf(job: EngineJob, maxAttempts: number): Request {
  const query = new URLSearchParams({ fnId: job.functionId, stepId: job.stepId ?? "step" });
  const stack = job.steps.map((step) => step.stepId);
  const body = {
    version: 2,
    event: job.event,
    events: [job.event],
    steps: Object.fromEntries(job.steps.map((step) => [step.stepId, step.value])),
    ctx: {
      run_id: job.runId,
      fn_id: job.functionId,
      qi_id: String(job.id),
      attempt: job.attempt,
      max_attempts: maxAttempts,
      disable_immediate_execution: job.forcePlan,
      use_api: false,
      stack: { stack, current: stack.length },
    },
  };
  return new Request(`${url}?${query}`, {
    method: "POST",
    headers: { ...headers, "x-inngest-generation-id": String(job.generation) },
    body: JSON.stringify(body),
  });
}

async function answerOf(response: Response): Promise<CallResponse> {
  const text = await response.text();
  return {
    status: response.status,
    noRetry: response.headers.get("x-inngest-no-retry") === "true",
    retryAfter: response.headers.get("retry-after"),
    body: text === "" ? null : JSON.parse(text),
  };
}
