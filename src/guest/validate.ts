// Checks callers' input by hand, because the guest is copied into images and has no dependencies.
import { GuestFault } from "./faults.ts";
import { type BatchCall, type ExecSpec, type JobSpec, largestBatchReadBytes, type StageSpec } from "./protocol.ts";

/** Node fires timers with a longer delay at once. */
const maxTimerMs = 2 ** 31 - 1;
const maxExecMs = 5 * 60_000;
const maxGraceMs = 5 * 60_000;
const maxStages = 1_000;
const maxPorts = 1_000;
const maxCalls = 1_000;
const maxKeyLength = 1_000;
const maxExecOutputBytes = 64 * 1024 * 1024;

type Fields = Readonly<Record<string, unknown>>;

/** Checks a JobSpec that came over the wire. Fails with 400 `bad-request`, naming the field. */
export function parseJobSpec(value: unknown): JobSpec {
  const fields = object(value, "job");
  const stages = list(fields.stages, "stages").map((stage, index) => parseStage(stage, `stages[${index}]`));
  if (stages.length === 0 || stages.length > maxStages) throw bad("stages", `must be 1 to ${maxStages}`);
  if (new Set(stages.map((stage) => stage.name)).size !== stages.length) throw bad("stages", "must have unique names");
  return {
    stages,
    writable: strings(fields.writable, "writable"),
    shared: fields.shared === undefined ? [] : strings(fields.shared, "shared"),
    hidden: fields.hidden === undefined ? [] : strings(fields.hidden, "hidden"),
    ports: fields.ports === undefined ? [] : list(fields.ports, "ports").map((port) => parsePort(port, "ports")),
    ...(fields.after === undefined ? {} : { after: parseKey(fields.after) }),
    labels: stringMap(fields.labels, "labels"),
  };
}

/** Checks an ExecSpec that came over the wire. Fails with 400 `bad-request`, naming the field. */
export function parseExecSpec(value: unknown): ExecSpec {
  const fields = object(value, "exec");
  const stdin = fields.stdin === undefined ? {} : { stdin: anyText(fields.stdin, "stdin") };
  return {
    argv: argv(fields.argv, "argv"),
    cwd: text(fields.cwd, "cwd"),
    env: environment(fields.env, "env"),
    ...stdin,
    writable: strings(fields.writable, "writable"),
    timeoutMs: Math.min(positive(fields.timeoutMs, "timeoutMs"), maxExecMs),
    maxBytes: Math.min(natural(fields.maxBytes, "maxBytes"), maxExecOutputBytes),
  };
}

/** Checks the body of a cancel request. */
export function parseCancel(value: unknown): { reason: string; graceMs: number } {
  const fields = object(value, "cancel");
  return {
    reason: anyText(fields.reason, "reason").slice(0, 2_000),
    graceMs: Math.min(natural(fields.graceMs, "graceMs"), maxGraceMs),
  };
}

/** Checks the requested number of ports. */
export function parsePortCount(value: unknown): number {
  const count = positive(object(value, "ports").count, "count");
  if (count > maxPorts) throw bad("count", `must be at most ${maxPorts}`);
  return count;
}

/** Checks the calls of a batch. */
export function parseBatch(value: unknown): BatchCall[] {
  const calls = list(object(value, "batch").calls, "calls");
  if (calls.length > maxCalls) throw bad("calls", `must be at most ${maxCalls}`);
  return calls.map((call, index) => parseBatchCall(object(call, `calls[${index}]`), `calls[${index}]`));
}

function parseBatchCall(fields: Fields, at: string): BatchCall {
  const path = (): string => text(fields.path, `${at}.path`);
  const { call } = fields;
  switch (call) {
    case "stat":
      return { call, path: path() };
    case "read":
      return {
        call,
        path: path(),
        maxBytes: Math.min(natural(fields.maxBytes, `${at}.maxBytes`), largestBatchReadBytes),
      };
    case "write":
      return { call, path: path(), text: anyText(fields.text, `${at}.text`) };
    case "remove":
      return { call, path: path(), recursive: flag(fields.recursive, `${at}.recursive`) };
    case "ports":
      return { call, count: parsePortCount(fields) };
    case "forget":
      return { call, key: parseKey(fields.key) };
    default:
      throw bad(`${at}.call`, "is not a call that a batch may contain");
  }
}

/** Checks a job's key. */
export function parseKey(value: unknown): string {
  if (typeof value === "string" && value !== "" && value.length <= maxKeyLength) return value;
  throw new GuestFault(400, "bad-request", `a key must have 1 to ${maxKeyLength} characters`);
}

/** Checks a number from a query; returns `fallback` when it is absent. */
export function parseNumber(value: string | null, name: string, fallback: number): number {
  return value === null || value === "" ? fallback : natural(Number(value), name);
}

function parseStage(value: unknown, at: string): StageSpec {
  const fields = object(value, at);
  const stdin = fields.stdin ?? null;
  return {
    name: named(fields.name, `${at}.name`),
    argv: argv(fields.argv, `${at}.argv`),
    cwd: text(fields.cwd, `${at}.cwd`),
    env: environment(fields.env, `${at}.env`),
    stdin: stdin === null ? null : anyText(stdin, `${at}.stdin`),
    openStdin: flag(fields.openStdin, `${at}.openStdin`),
    timeoutMs: Math.min(positive(fields.timeoutMs, `${at}.timeoutMs`), maxTimerMs),
    outputLimitBytes: natural(fields.outputLimitBytes, `${at}.outputLimitBytes`),
    background: flag(fields.background, `${at}.background`),
    continueOnFailure: flag(fields.continueOnFailure, `${at}.continueOnFailure`),
    always: flag(fields.always, `${at}.always`),
    ...(fields.ready === undefined ? {} : { ready: parseReady(fields.ready, `${at}.ready`) }),
  };
}

function parseReady(value: unknown, at: string): NonNullable<StageSpec["ready"]> {
  const fields = object(value, at);
  if (fields.http === undefined) return { argv: argv(fields.argv, `${at}.argv`) };
  const http = object(fields.http, `${at}.http`);
  const path = text(http.path, `${at}.http.path`);
  if (!/^\/[\x21-\x7e]*$/.test(path)) throw bad(`${at}.http.path`, "must be a URL path such as /healthz");
  return { http: { port: parsePort(http.port, `${at}.http.port`), path } };
}

/** Checks a TCP port number. */
export function parsePort(value: unknown, at: string): number {
  const port = positive(value, at);
  if (port > 65_535) throw bad(at, "must be a TCP port");
  return port;
}

function bad(at: string, problem: string): GuestFault {
  return new GuestFault(400, "bad-request", `${at} ${problem}`);
}

function object(value: unknown, at: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw bad(at, "must be an object");
  return value as Fields;
}

function list(value: unknown, at: string): readonly unknown[] {
  if (!Array.isArray(value)) throw bad(at, "must be a list");
  return value;
}

function anyText(value: unknown, at: string): string {
  if (typeof value !== "string") throw bad(at, "must be text");
  return value;
}

/** Checks text that is passed to the kernel, where NUL would end it. */
function text(value: unknown, at: string): string {
  const checked = anyText(value, at);
  if (checked.includes("\0")) throw bad(at, "must not contain NUL");
  return checked;
}

function named(value: unknown, at: string): string {
  const checked = text(value, at);
  if (checked === "" || checked.length > 200) throw bad(at, "must have 1 to 200 characters");
  return checked;
}

function strings(value: unknown, at: string): string[] {
  return list(value, at).map((item, index) => text(item, `${at}[${index}]`));
}

function argv(value: unknown, at: string): string[] {
  const checked = strings(value, at);
  if (checked.length === 0 || checked[0] === "") throw bad(at, "must begin with a command");
  return checked;
}

function stringMap(value: unknown, at: string): Record<string, string> {
  const entries = Object.entries(object(value, at)).map(([key, item]) => [key, text(item, `${at}.${key}`)] as const);
  return Object.fromEntries(entries);
}

function environment(value: unknown, at: string): Record<string, string> {
  const checked = stringMap(value, at);
  for (const name of Object.keys(checked)) {
    if (name === "" || /[=\0]/.test(name)) throw bad(at, `has the impossible name ${JSON.stringify(name)}`);
  }
  return checked;
}

function natural(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) throw bad(at, "must be a number, 0 or more");
  return Math.floor(value);
}

function positive(value: unknown, at: string): number {
  const checked = natural(value, at);
  if (checked === 0) throw bad(at, "must be above 0");
  return checked;
}

function flag(value: unknown, at: string): boolean {
  if (value === undefined) return false;
  if (typeof value !== "boolean") throw bad(at, "must be true or false");
  return value;
}
