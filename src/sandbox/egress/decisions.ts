import { fstatSync, ftruncateSync, readFileSync, readSync, writeSync } from "node:fs";
import type { Refusal } from "./rules.ts";
import type { Target } from "./target.ts";

/**
 * What was allowed or denied, or allowed and not reached: where to, and never what was asked for
 * there.
 */
export interface Decision {
  readonly at: string;
  readonly decision: "allowed" | "denied" | "unreachable";
  /** Empty when what was asked for is no host at all. */
  readonly host: string;
  readonly port: number;
  /** Of a denial: the rule, or `malformed`. */
  readonly why?: Refusal["why"] | "malformed";
  /** Why there was no connection to what is allowed, as the system says it. */
  readonly problem?: string;
  /** How many decisions before this one could not be written, as on a full disk. */
  readonly lost?: number;
}

export interface DecisionLog {
  write(decision: Decision["decision"], target: Target | null, more?: Pick<Decision, "why" | "problem">): void;
}

const mostBytes = 1 << 20;

/**
 * Appends a line of JSON for each decision to a file that is open for appending and reading. Above
 * `limitBytes` its older half is dropped, in place: whoever writes may have no right to the folder
 * any more.
 */
export function createDecisionLog(file: number, now = () => new Date(), limitBytes = mostBytes): DecisionLog {
  let lost = 0;
  return {
    write(decision, target, more = {}) {
      const entry: Decision = {
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
        lost += 1; // A disk without room: what was decided holds all the same, and the next line says that some are missing.
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
 * The decisions that a file holds, oldest first; a line that is just being written is left out.
 * None without the file.
 */
export function readDecisions(path: string): Decision[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return text.split("\n").flatMap((line) => {
    try {
      return line === "" ? [] : [JSON.parse(line) as Decision];
    } catch {
      return []; // Cut by a reader that came while it was written, or by a power failure.
    }
  });
}
