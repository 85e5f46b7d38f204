import { createHash, createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

// A small Inngest server on loopback, for behaviour that the real one has and the embedded engine
// does not: it calls over HTTP, once for every step, in random order, and sometimes loses an answer
// and calls again.

export interface FakeEvent {
  readonly name: string;
  readonly id: string;
  readonly ts: number;
  readonly data: Record<string, unknown>;
}

export interface FakeRun {
  readonly runId: string;
  readonly functionId: string;
  readonly functionName: string;
  readonly event: FakeEvent;
  status: "running" | "completed" | "failed";
  /** Their displayed names, in the order in which they ended. */
  readonly steps: string[];
  output: unknown;
}

export interface FakeInngest {
  readonly url: string;
  readonly runs: readonly FakeRun[];
  /** In the order of arrival, including repetitions. */
  readonly events: readonly FakeEvent[];
  /** The number of calls whose answer was lost, so that they were made again. */
  readonly lostAnswers: number;
  /** Violations of the protocol. */
  readonly faults: readonly string[];
  readonly registrations: number;
  /** The addresses at which it called the functions. */
  readonly calledAt: readonly string[];
  /** Forgets its registered functions, as a dev server does when it is restarted. */
  forget(): void;
  /** Calls the functions at another origin from now on, as if another process had registered. */
  callAt(origin: string): void;
  /** Accepts the next events of this name and loses them. */
  lose(name: string, count: number): void;
  /** Resolves when nothing is running or due. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

export interface FakeOptions {
  /** Decides on order and losses: the same seed makes the same decisions. */
  readonly seed?: number;
  /** The percentage of answers that are lost. */
  readonly lossPercent?: number;
  /**
   * Signs its calls, as the cloud does, and takes events and registrations only from holders of the
   * keys.
   */
  readonly keys?: { readonly signing: string; readonly event: string };
}

interface Registered {
  readonly id: string;
  readonly name: string;
  readonly url: string;
  readonly maxAttempts: number;
  readonly triggers: readonly { event?: string; expression?: string }[];
}

interface Job {
  readonly run: FakeRun;
  readonly fn: Registered;
  readonly state: Map<string, unknown>;
  attempt: number;
}

interface Op {
  readonly id: string;
  readonly op: string;
  readonly displayName?: string;
  readonly name?: string;
  readonly data?: unknown;
  readonly error?: { name?: string; message?: string };
}

const retryMs = 20;
const parallelism = 4;

export async function startFakeInngest(options: FakeOptions = {}): Promise<FakeInngest> {
  const random = randomOf(options.seed ?? 1);
  const functions = new Map<string, Registered>();
  const runs: FakeRun[] = [];
  const events: FakeEvent[] = [];
  const faults: string[] = [];
  const seen = new Set<string>();
  const due: Job[] = [];
  const losing = new Map<string, number>();
  let atWork = 0;
  let waiting = 0;
  let lostAnswers = 0;
  let registrations = 0;
  let closed = false;

  const receive = (event: FakeEvent): void => {
    events.push(event);
    const toLose = losing.get(event.name) ?? 0;
    losing.set(event.name, Math.max(0, toLose - 1));
    const key = JSON.stringify([event.name, event.id]);
    if (seen.has(key)) return;
    seen.add(key);
    if (toLose > 0) return;
    for (const fn of functions.values()) {
      if (!fn.triggers.some((trigger) => matches(trigger, event))) continue;
      const runId = createHash("sha256")
        .update(JSON.stringify([fn.id, key]))
        .digest("hex")
        .slice(0, 26);
      const run: FakeRun = {
        runId,
        functionId: fn.id,
        functionName: fn.name,
        event,
        status: "running",
        steps: [],
        output: null,
      };
      runs.push(run);
      due.push({ run, fn, state: new Map(), attempt: 0 });
    }
    pump();
  };

  const pump = (): void => {
    while (!closed && atWork < parallelism && due.length > 0) {
      const [job] = due.splice(Math.floor(random() * due.length), 1);
      atWork += 1;
      void step(job!)
        .catch((error: unknown) => faults.push(`${job!.fn.id}: ${String(error)}`))
        .finally(() => {
          atWork -= 1;
          pump();
        });
    }
  };

  const step = async (job: Job): Promise<void> => {
    const answer = await call(job, options);
    if (random() * 100 < (options.lossPercent ?? 0)) {
      lostAnswers += 1;
      due.push(job);
      return;
    }
    apply(job, answer);
  };

  const again = (job: Job): void => {
    waiting += 1;
    setTimeout(() => {
      waiting -= 1;
      due.push(job);
      pump();
    }, retryMs);
  };

  const settle = (job: Job, op: Op, value: unknown): void => {
    job.state.set(op.id, value);
    job.run.steps.push(op.displayName ?? op.name ?? op.id);
    job.attempt = 0;
    due.push(job);
  };

  /** Tries again or, after the last try, calls `atLast`. */
  const failedAttempt = (job: Job, isFinal: boolean, atLast: () => void): void => {
    job.attempt += 1;
    if (isFinal || job.attempt >= job.fn.maxAttempts) atLast();
    else again(job);
  };

  const apply = (job: Job, { status, noRetry, body }: Answer): void => {
    if (status === 200) end(job, "completed", body);
    else if (status === 206) applyOp(job, body as Op[]);
    else failedAttempt(job, noRetry, () => end(job, "failed", body));
  };

  const applyOp = (job: Job, ops: readonly Op[]): void => {
    const [op] = ops;
    if (op === undefined || ops.length > 1) throw new Error(`${ops.length} ops at once are not known here`);
    if (op.op === "StepRun") settle(job, op, { data: op.data ?? null });
    else if (op.op === "StepFailed") settle(job, op, { error: op.error });
    else if (op.op === "StepError") failedAttempt(job, false, () => settle(job, op, { error: op.error }));
    else throw new Error(`the op ${op.op} is not known here`);
  };

  const end = ({ run }: Job, status: "completed" | "failed", output: unknown): void => {
    run.status = status;
    run.output = output;
    if (run.event.name.startsWith("inngest/")) return;
    const data = { function_id: run.functionId, run_id: run.runId, event: run.event, events: [run.event] };
    const name = status === "failed" ? "inngest/function.failed" : "inngest/function.finished";
    const result = status === "failed" ? { error: output } : { result: output };
    receive({ name, id: run.runId, ts: Date.now(), data: { ...data, ...result } });
  };

  const answer = async (request: IncomingMessage): Promise<[number, unknown]> => {
    const { pathname } = new URL(request.url ?? "/", "http://fake");
    const body = await textOf(request);
    const key = /^\/e\/([^/]+)$/.exec(pathname)?.[1];
    if (request.method === "POST" && key !== undefined) {
      if (options.keys !== undefined && key !== options.keys.event) return [401, { error: "event key", status: 401 }];
      const sent = [JSON.parse(body)].flat() as Partial<FakeEvent>[];
      const complete = sent.map((event) => {
        const id = event.id ?? createHash("sha256").update(`${random()}`).digest("hex").slice(0, 26);
        return { name: event.name!, id, ts: event.ts ?? Date.now(), data: event.data ?? {} };
      });
      for (const event of complete) receive(event);
      return [200, { ids: complete.map((event) => event.id), status: 200 }];
    }
    if (request.method === "POST" && pathname === "/fn/register") {
      registrations += 1;
      const bearer = request.headers.authorization ?? "";
      if (options.keys !== undefined && bearer !== `Bearer ${hashedKey(options.keys.signing)}`) {
        return [401, { error: "signing key", status: 401 }];
      }
      for (const fn of (JSON.parse(body) as { functions: SyncedFunction[] }).functions) {
        functions.set(fn.id, registeredOf(fn));
      }
      return [200, { ok: true, status: 200, modified: true }];
    }
    if (request.method === "GET" && pathname === "/dev") {
      if (options.keys !== undefined) return [404, { error: "not found", status: 404 }];
      return [200, { functions: [...functions.values()].map((fn) => ({ slug: fn.id, steps: [{ uri: fn.url }] })) }];
    }
    if (request.method === "GET" && pathname === "/v1/apps/wavesmith/functions") {
      if (request.headers.authorization !== `Bearer ${hashedKey(options.keys?.signing ?? "")}`) return [401, {}];
      return [200, [...functions.values()].map((fn) => ({ id: fn.id, config: { steps: [{ uri: fn.url }] } }))];
    }
    faults.push(`nothing is at ${request.method} ${pathname}`);
    return [404, { error: "not found", status: 404 }];
  };

  const server = createServer((request, response) => {
    answer(request).then(
      ([status, body]) => reply(response, status, body),
      (error: unknown) => {
        faults.push(String(error));
        reply(response, 500, { error: String(error), status: 500 });
      },
    );
  });
  const { port } = await listening(server);
  return {
    url: `http://127.0.0.1:${port}`,
    runs,
    events,
    faults,
    get lostAnswers() {
      return lostAnswers;
    },
    get registrations() {
      return registrations;
    },
    get calledAt() {
      return [...new Set([...functions.values()].map(({ url }) => new URL(url).origin))];
    },
    forget: () => functions.clear(),
    callAt(origin) {
      for (const [id, fn] of functions) {
        const { pathname, search } = new URL(fn.url);
        functions.set(id, { ...fn, url: `${origin}${pathname}${search}` });
      }
    },
    lose: (name, count) => void losing.set(name, count),
    async idle() {
      while (atWork + due.length + waiting > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    },
    async close() {
      closed = true;
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface SyncedFunction {
  readonly id: string;
  readonly name: string;
  readonly triggers: readonly { event?: string; expression?: string }[];
  readonly steps: {
    readonly step: { readonly runtime: { readonly url: string }; readonly retries?: { readonly attempts: number } };
  };
}

function registeredOf({ id, name, triggers, steps: { step } }: SyncedFunction): Registered {
  return { id, name, triggers, url: step.runtime.url, maxAttempts: 1 + (step.retries?.attempts ?? 3) };
}

function matches({ event, expression }: { event?: string; expression?: string }, { name, data }: FakeEvent): boolean {
  const named = event?.endsWith("*") === true ? name.startsWith(event.slice(0, -1)) : event === name;
  if (!named || expression === undefined) return named;
  return /^event\.data\.function_id == '(.*)'$/.exec(expression)?.[1] === data.function_id;
}

interface Answer {
  readonly status: number;
  readonly noRetry: boolean;
  readonly body: unknown;
}

/** A call for one step: without `fn_id` the SDK does not go on by itself. */
async function call({ run, fn, state, attempt }: Job, { keys }: FakeOptions): Promise<Answer> {
  const stack = [...state.keys()];
  const body = JSON.stringify({
    version: 2,
    event: run.event,
    events: [run.event],
    steps: Object.fromEntries(state),
    ctx: {
      run_id: run.runId,
      attempt,
      max_attempts: fn.maxAttempts,
      disable_immediate_execution: false,
      use_api: false,
      stack: { stack, current: stack.length },
    },
  });
  const headers = { "content-type": "application/json", ...(keys === undefined ? {} : signed(body, keys.signing)) };
  const response = await fetch(fn.url, { method: "POST", headers, body });
  const text = await response.text();
  const noRetry = response.headers.get("x-inngest-no-retry") === "true";
  return { status: response.status, noRetry, body: text === "" ? null : JSON.parse(text) };
}

const bare = (key: string): string => key.replace(/^signkey-\w+-/, "");
const hashedKey = (key: string): string =>
  `${/^signkey-\w+-/.exec(key)?.[0] ?? ""}${createHash("sha256")
    .update(Buffer.from(bare(key), "hex"))
    .digest("hex")}`;

/**
 * The signature that the SDK checks in cloud mode: over the body as canonical JSON (sorted keys).
 */
function signed(body: string, key: string): Record<string, string> {
  const seconds = Math.round(Date.now() / 1000).toString();
  const canonical = canonicalJson(JSON.parse(body));
  const digest = createHmac("sha256", bare(key)).update(canonical).update(seconds).digest("hex");
  return { "x-inngest-signature": `t=${seconds}&s=${digest}` };
}

function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`).join(",")}}`;
}

function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function listening(server: Server): Promise<AddressInfo> {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address() as AddressInfo)));
}
