import { fstatSync, ftruncateSync, readFileSync, readSync, writeSync } from "node:fs";
import type { TargetRefusal } from "./rules.ts";
import type { Target } from "./target.ts";

/**
 * A request that was allowed, denied, or allowed and not reached. It records the destination, never
 * the content.
 */
export interface EgressDecision {
  readonly at: string;
  readonly decision: "allowed" | "denied" | "unreachable";
  /** Empty when the request names no valid host. */
  readonly host: string;
  readonly port: number;
  /** Why it was denied: the rule, or `malformed`. */
  readonly why?: TargetRefusal["why"] | "malformed";
  /** Why an allowed host was not reached, in the system's words. */
  readonly problem?: string;
  /** How many decisions before this one could not be written, as on a full disk. */
  readonly lost?: number;
}

export interface DecisionLog {
  write(
    decision: EgressDecision["decision"],
    target: Target | null,
    more?: Pick<EgressDecision, "why" | "problem">,
  ): void;
}

const maxBytes = 1 << 20;

/**
 * Appends each decision as a line of JSON to a file that is open for appending and reading. Above
 * `limitBytes` it drops the older half in place, because the process may have lost access to the
 * folder.
 */
export function createDecisionLog(file: number, now = () => new Date(), limitBytes = maxBytes): DecisionLog {
  let lost = 0;
  return {
    write(decision, target, more = {}) {
      const entry: EgressDecision = {
        at: now().toISOString(),
        decision,
        host: target?.host ?? "",
        port: target?.port ?? 0,
        ...more,
        ...(lost === 0 ? {} : { lost }),
      };
      try {
        if (fstatSync(file).size > limitBytes) dropOlder(file, limitBytes);
        writeSync(file, `${JSON.stringify(entry)}\n`);
        lost = 0;
      } catch {
        lost += 1; // The disk is full. The decision still holds, and the next line counts the missing ones.
      }
    },
  };
}

function dropOlder(file: number, limitBytes: number): void {
  const kept = Buffer.alloc(Math.floor(limitBytes / 2));
  const read = readSync(file, kept, 0, kept.length, fstatSync(file).size - kept.length);
  ftruncateSync(file, 0);
  writeSync(file, kept.subarray(kept.indexOf("\n") + 1, read));
}

/**
 * Reads the decisions of a file, oldest first, without a line that is being written. None without
 * the file.
 */
export function readDecisions(path: string): EgressDecision[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return text.split("\n").flatMap((line) => {
    try {
      return line === "" ? [] : [JSON.parse(line) as EgressDecision];
    } catch {
      return []; // Truncated by a read during a write, or by a power failure.
    }
  });
}
