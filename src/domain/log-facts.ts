import { AsyncLocalStorage } from "node:async_hooks";

/** The subject of a log line; absent where it is unknown. */
export interface LogFacts {
  readonly tenant?: string;
  readonly project?: string;
  readonly build?: string;
  readonly wave?: number;
  readonly task?: string;
  readonly gate?: string;
  /** The attempt's number within its task, or within its wave for a fix. */
  readonly attempt?: number;
}

const current = new AsyncLocalStorage<LogFacts>();

/** Runs `work` and adds these facts to every log line that it writes. */
export const about = <Result>(facts: LogFacts, work: () => Result): Result =>
  current.run({ ...current.getStore(), ...facts }, work);

/** Returns what the running work is about. */
export const currentFacts = (): LogFacts => current.getStore() ?? {};

const sources = {
  tenant: "tenantId",
  project: "projectId",
  build: "buildId",
  wave: "waveNumber",
  task: "taskKey",
  gate: "gate",
  attempt: "attempt",
} as const;

/** Returns what an event is about, given its data. */
export const factsOf = (data: Readonly<Record<string, unknown>>): LogFacts =>
  Object.fromEntries(
    Object.entries(sources).flatMap(([fact, name]) => {
      const value = data[name];
      return typeof value === "string" || typeof value === "number" ? [[fact, value]] : [];
    }),
  );
