import { isDiskFull } from "../../domain/disk-full.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import { matchesAny } from "../../domain/paths/write-globs.ts";
import { handoverPath, sharedTreeAt } from "../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext } from "../../store/port.ts";
import type { KeepResult } from "../../workspace/port.ts";
import { commitTrailers } from "../commit-trailers.ts";
import type { Ports } from "../port.ts";

// W8. Work is kept on a ref of the authority before the tree that holds it is removed.

const agentEmail = (role: string): string => `${role}@agents.wavesmith.invalid`;
/** Errors of sh and git on a full disk that do not name the cause. */
const couldNotWrite = /I\/O error|write error|unable to write/;
const bulkyKib = 4 * 1024;

/** The result of keeping an attempt's work. */
export interface KeptWork {
  readonly kept: KeepResult | null;
  /** On a full disk: what was deleted to make room, or that the tree stays; null otherwise. */
  readonly noRoom: string | null;
}

/**
 * Keeps an attempt's work, even on a full disk. A failed job most likely filled the disk, so its
 * large files are deleted to keep the others. Nothing of successful work is deleted.
 */
export async function keepWork(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: AttemptInContext,
  jobFailed: boolean,
): Promise<KeptWork> {
  const first = await unlessFull(keepAttemptTree(ports, endpoint, loaded));
  if (first !== "full") return { kept: first, noRoom: null };
  const { jobKey, treePath } = loaded.attempt;
  await endpoint.guest.remove(handoverPath(jobKey), { recursive: true });
  const dropped = jobFailed ? await dropBulky(ports, endpoint, loaded) : [];
  const second = await unlessFull(keepAttemptTree(ports, endpoint, loaded));
  if (second === "full") return { kept: null, noRoom: `its work stays in ${treePath} on the sandbox's volume` };
  return { kept: second, noRoom: dropped.length === 0 ? null : `not kept: ${dropped.join(", ")}` };
}

/** Returns the result, or `full` if the disk had no room. */
export async function unlessFull(keep: Promise<KeepResult | null>): Promise<KeepResult | null | "full"> {
  return keep.catch((error: unknown) => {
    if (isDiskFull(error) || (error instanceof WavesmithError && couldNotWrite.test(error.message)))
      return "full" as const;
    throw error;
  });
}

/** Returns a task's paths in its wave's shared tree; null if the attempt has the tree to itself. */
export const ownWrites = ({ attempt, task }: AttemptInContext): readonly string[] | null =>
  sharedTreeAt(attempt.treePath) === null ? null : (task?.definition.writes ?? null);

/** Removes large files that the base does not have; returns a description of the first few. */
async function dropBulky(ports: Ports, { guest }: SandboxEndpoint, loaded: AttemptInContext): Promise<string[]> {
  const { attempt, build } = loaded;
  const { treePath } = attempt;
  const own = ownWrites(loaded);
  const found = await guest.exec({
    argv: ["find", ".", "-xdev", "-type", "f", "-size", `+${bulkyKib}k`, "-printf", "%k\\0%P\\0"],
    // Runs as the tree's user, because only that user can read its files.
    cwd: treePath,
    env: { LC_ALL: "C" },
    writable: [],
    timeoutMs: 60_000,
    maxBytes: 1024 * 1024,
  });
  const known = new Set((await ports.workspace.listFiles(build.projectId, attempt.baseSha)).map((file) => file.path));
  const dropped: string[] = [];
  const parts = found.stdout.split("\0");
  for (let index = 0; index + 1 < parts.length; index += 2) {
    const path = itemAt(parts, index + 1);
    if (path === "" || path.startsWith(".git/") || known.has(path)) continue;
    if (own !== null && !matchesAny(own, path)) continue;
    await guest.remove(`${treePath}/${path}`);
    dropped.push(`${path} (${Number(parts[index]) >> 10} MiB)`);
  }
  return dropped.length > 5 ? [...dropped.slice(0, 5), `and ${dropped.length - 5} more`] : dropped;
}

/** The result for a tree that was emptied: we never commit the deletion of every file. */
const emptied: KeepResult = { commit: null, changed: [], refused: ["its tree was emptied"] };

export async function keepAttemptTree(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: AttemptInContext,
): Promise<KeepResult | null> {
  const { attempt, build } = loaded;
  const only = ownWrites(loaded);
  if ((await endpoint.guest.stat(attempt.treePath)) === null) return null;
  const keep = ports.workspace.keepTree({
    projectId: build.projectId,
    guest: endpoint.guest,
    treePath: attempt.treePath,
    base: attempt.baseSha,
    message: commitMessage(loaded),
    author: { name: `${attempt.role} agent`, email: agentEmail(attempt.role) },
    date: attempt.createdAt,
    ref: attempt.ref,
    ...(only === null ? {} : { only }),
    ...(attempt.kind === "generate" ? { made: attempt.paths } : {}),
  });
  const kept = await keep.catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return emptied;
    throw error;
  });
  return kept;
}

function commitMessage({ attempt, build, wave, task }: AttemptInContext): string {
  const titles = {
    task: task?.definition.title ?? "",
    fix: `Fix wave ${wave.number}`,
    generate: "Make generated files again",
  };
  const trailers = [
    ...commitTrailers(build, wave, task?.key ?? null),
    `Wavesmith-Agent: ${attempt.role}`,
    `Wavesmith-Attempt: ${attempt.number}`,
    ...(attempt.kind === "fix" ? [`Fixes: ${attempt.gateRunId ?? attempt.approvalId}`] : []),
  ];
  return `${titles[attempt.kind]}\n\n${trailers.join("\n")}\n`;
}
