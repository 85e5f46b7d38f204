import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { ExecResult, GuestClient } from "../../sandbox/port.ts";

// Git inside the sandbox. The shell text is fixed; everything variable is an argument or standard
// input. The environment and the settings are ours, never a tree's.

const settings: Readonly<Record<string, string>> = {
  "core.hooksPath": "/dev/null",
  "core.excludesFile": "/dev/null",
  "core.attributesFile": "/dev/null",
  "core.fsmonitor": "false",
  "core.untrackedCache": "false",
  "core.autocrlf": "false",
  "core.fileMode": "true",
  "core.logAllRefUpdates": "false",
  // The volume can be rebuilt from the authority, so nothing here waits for the disk.
  "core.fsync": "none",
  "core.bigFileThreshold": "32m",
  "pack.threads": "1",
  "gc.auto": "0",
  "maintenance.auto": "false",
  "protocol.ext.allow": "never",
  "advice.addEmbeddedRepo": "false",
  "advice.detachedHead": "false",
};

const environment: Readonly<Record<string, string>> = {
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_CONFIG_COUNT: String(Object.keys(settings).length),
  ...Object.fromEntries(
    Object.entries(settings).flatMap(([key, value], index) => [
      [`GIT_CONFIG_KEY_${index}`, key],
      [`GIT_CONFIG_VALUE_${index}`, value],
    ]),
  ),
};

export interface SandboxScript {
  readonly script: string;
  readonly args: readonly string[];
  /** Paths on the volume this script may write. */
  readonly writable: readonly string[];
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The facts a script prints, in order: `key NUL value NUL`. */
export type Facts = readonly (readonly [key: string, value: string])[];

/** Runs a script at the volume's root. The caller checks its exit code. */
export async function runInSandbox(guest: GuestClient, run: SandboxScript): Promise<ExecResult> {
  const result = await guest.exec({
    argv: ["sh", "-c", run.script, "wavesmith", ...run.args],
    cwd: ".",
    env: { ...environment, ...run.env },
    ...(run.stdin === undefined ? {} : { stdin: run.stdin }),
    writable: run.writable,
    timeoutMs: 300_000,
    maxBytes: 16 << 20,
  });
  if (result.exitCode === 127) {
    throw new WavesmithError("environment", `git is missing in the sandbox: ${result.stderr.trim()}`, {
      remedy: "the sandbox needs sh and git on its PATH",
    });
  }
  return result;
}

/** Fails with `git`, retryable, unless the script succeeded and its output is complete. */
export function assertDone(result: ExecResult, activity: string): void {
  if (result.exitCode === 0 && !result.truncated) return;
  const reason = result.timedOut ? "timed out" : result.truncated ? "too much output" : `exit code ${result.exitCode}`;
  throw new WavesmithError(
    "git",
    `${activity} in the sandbox failed (${reason}): ${result.stderr.trim().slice(-4096)}`,
    {
      retryable: true,
    },
  );
}

export function readFacts(stdout: string): Facts {
  const parts = stdout.split("\0");
  const facts: [string, string][] = [];
  for (let index = 0; index + 1 < parts.length; index += 2)
    facts.push([itemAt(parts, index), itemAt(parts, index + 1)]);
  return facts;
}

export function factOf(facts: Facts, key: string): string | null {
  return facts.find(([name]) => name === key)?.[1] ?? null;
}

/**
 * Returns a path on the volume if it is safe for our scripts: plain names below the root, no `..`.
 */
export function assertVolumePath(path: string): string {
  const parts = path.split("/");
  if (parts.every((part) => /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(part))) return path;
  throw new WavesmithError("sandbox-path", `not a path for a tree on the volume: ${JSON.stringify(path)}`);
}
