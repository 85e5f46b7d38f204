import { WavesmithError } from "../../domain/errors.ts";
import type { EngineEvent } from "../port.ts";
import type { FunctionConfig } from "../sdk/protocol.ts";
import { compileCron, type NextTick } from "./cron-expression.ts";
import { compileKey, type KeyExpression } from "./expression.ts";

/** A function as the engine runs it. */
export interface FunctionSpec {
  readonly id: string;
  readonly maxAttempts: number;
  readonly crons: readonly { readonly expression: string; readonly nextTick: NextTick }[];
  readonly matches: (event: EngineEvent) => boolean;
  /** The concurrency keys a call for this event takes, each `<limit> <key>`. */
  readonly slots: (event: EngineEvent) => string[];
  readonly isLimited: boolean;
}

// The SDK documents 3 retries as the default.
const defaultRetries = 3;
const knownOptions = new Set(["id", "name", "triggers", "steps", "concurrency"]);

/**
 * Turns the SDK's registration into specs; throws for an option the engine would have to ignore.
 */
export function specsOf(configs: readonly FunctionConfig[]): ReadonlyMap<string, FunctionSpec> {
  return new Map(configs.map((config) => [config.id, specOf(config)]));
}

function specOf(config: FunctionConfig): FunctionSpec {
  for (const [key, value] of Object.entries(config)) {
    if (!knownOptions.has(key) && value !== undefined && value !== null)
      throw unsupported(config.id, `the option ${key}`);
  }
  if (config.triggers.length === 0) throw unsupported(config.id, "having no event and no cron trigger");
  const triggers = config.triggers.map((trigger) => readTrigger(config.id, trigger));
  const slots = slotsOf(config.id, config.concurrency);
  return {
    id: config.id,
    maxAttempts: 1 + (config.steps.step.retries?.attempts ?? defaultRetries),
    crons: triggers.flatMap((trigger) => trigger.cron ?? []),
    matches: (event) => triggers.some((trigger) => trigger.matches?.(event) ?? false),
    slots: (event) => slots.map((slot) => slot.of(event)),
    isLimited: slots.length > 0,
  };
}

interface Trigger {
  readonly cron?: { readonly expression: string; readonly nextTick: NextTick };
  readonly matches?: (event: EngineEvent) => boolean;
}

function readTrigger(functionId: string, trigger: Readonly<Record<string, unknown>>): Trigger {
  for (const [key, value] of Object.entries(trigger)) {
    if (!["event", "cron", "expression"].includes(key)) throw unsupported(functionId, `the trigger option ${key}`);
    if (typeof value !== "string") throw unsupported(functionId, `the trigger ${JSON.stringify(trigger)}`);
  }
  const { event, cron, expression } = trigger as { event?: string; cron?: string; expression?: string };
  if (cron !== undefined) {
    return { cron: { expression: cron, nextTick: compileCron(cron, `function ${functionId}`) } };
  }
  if (event === undefined) throw unsupported(functionId, `the trigger ${JSON.stringify(trigger)}`);
  const matchesName = matchName(functionId, event);
  if (expression === undefined) return { matches: matchesName };
  const failedFunctionId = /^event\.data\.function_id == '([^'\\]*)'$/.exec(expression)?.[1];
  // The SDK itself writes only this expression, for `onFailure`.
  if (failedFunctionId === undefined || event !== "inngest/function.failed") {
    throw unsupported(functionId, `the trigger condition ${JSON.stringify(expression)}`);
  }
  return { matches: (candidate) => matchesName(candidate) && candidate.data.function_id === failedFunctionId };
}

/** Matches a whole name or, with a pattern that ends in `/*` or `.*`, a prefix, as Inngest does. */
function matchName(functionId: string, pattern: string): (event: EngineEvent) => boolean {
  if (!pattern.includes("*")) return (event) => event.name === pattern;
  if (!/^[^*]*[/.]\*$/.test(pattern)) throw unsupported(functionId, `the event name ${JSON.stringify(pattern)}`);
  const prefix = pattern.slice(0, -1);
  return (event) => event.name.startsWith(prefix) && event.name.length > prefix.length;
}

interface Slot {
  /** Options with the same key share a slot; the lowest limit applies. */
  readonly key: string;
  readonly limit: number;
  readonly of: (event: EngineEvent) => string;
}

function slotsOf(functionId: string, concurrency: unknown): Slot[] {
  if (concurrency === undefined || concurrency === null) return [];
  const options = Array.isArray(concurrency) ? concurrency : [concurrency];
  if (options.length > 2) throw unsupported(functionId, "more than two concurrency options");
  const slots = new Map<string, Slot>();
  for (const option of options) {
    const slot = slotOf(functionId, typeof option === "number" ? { limit: option } : option);
    if (slot !== null && slot.limit <= (slots.get(slot.key)?.limit ?? slot.limit)) slots.set(slot.key, slot);
  }
  return [...slots.values()];
}

function slotOf(functionId: string, option: Readonly<Record<string, unknown>>): Slot | null {
  for (const key of Object.keys(option)) {
    if (!["limit", "key", "scope"].includes(key)) throw unsupported(functionId, `the concurrency option ${key}`);
  }
  const { limit, key: expression, scope = "fn" } = option;
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 0) {
    throw unsupported(functionId, `the concurrency limit ${JSON.stringify(limit)}`);
  }
  if (scope !== "fn" && scope !== "env")
    throw unsupported(functionId, `the concurrency scope ${JSON.stringify(scope)}`);
  if (scope === "env" && expression === undefined)
    throw unsupported(functionId, "the concurrency scope env without a key");
  if (limit === 0) return null; // Inngest, too, reads 0 as no limit
  const owner = scope === "fn" ? `fn ${functionId}` : "env";
  if (expression === undefined) return { key: owner, limit, of: () => `${limit} ${owner}` };
  const value: KeyExpression = compileKey(String(expression), `a concurrency key of function ${functionId}`);
  const key = `${owner} ${String(expression)}`;
  return { key, limit, of: (event) => `${limit} ${key} = ${value(event)}` };
}

const unsupported = (functionId: string, feature: string) =>
  new WavesmithError(
    "unsupported",
    `function ${functionId} uses ${feature}, which the embedded engine does not support`,
    {
      remedy: "change the function, or run it on an Inngest server (--engine inngest)",
    },
  );
