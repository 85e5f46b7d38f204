import { isDiskFull } from "../../domain/disk-full.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { matchesAny } from "../../domain/write-globs.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext } from "../../store/port.ts";
import type { KeepResult } from "../../workspace/port.ts";
import { handoverPath, sharedTreeAt } from "../names.ts";
import type { Ports } from "../port.ts";

// W8. Work is kept on a ref of the authority before the tree that holds it is removed.

const agentEmail = (role: string): string => `${role}@agents.wavesmith.invalid`;
/** What sh and git say on a full disk when they do not give its reason. */
const couldNotWrite = /I\/O error|write error|unable to write/;
const bulkyKib = 4 * 1024;

/** What became of an attempt's work. */
export interface Keeping {
  readonly kept: KeepResult | null;
  /**
   * There was no room on the disk: what was given up for the rest, or that the tree stays. Null
   * when there was room.
   */
  readonly noRoom: string | null;
}

/**
 * Keeps an attempt's work, also on a full disk. A job that failed most likely filled it: then the
 * large files that it made are given up for the sake of the others, and for the space. Of work that
 * passed nothing is given up.
 */
export async function keepWork(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: AttemptInContext,
  jobFailed: boolean,
): Promise<Keeping> {
  const first = await unlessFull(keepTree(ports, endpoint, loaded));
  if (first !== "full") return { kept: first, noRoom: null };
  const { jobKey, treePath } = loaded.attempt;
  await endpoint.guest.remove(handoverPath(jobKey), { recursive: true });
  const dropped = jobFailed ? await dropBulky(ports, endpoint, loaded) : [];
  const second = await unlessFull(keepTree(ports, endpoint, loaded));
  if (second === "full") return { kept: null, noRoom: `its work is left in ${treePath} of the sandbox's volume` };
  return { kept: second, noRoom: dropped.length === 0 ? null : `not kept: ${dropped.join(", ")}` };
}

/** What was kept, or `full` when the disk had no room for it. */
export async function unlessFull(keep: Promise<KeepResult | null>): Promise<KeepResult | null | "full"> {
  return keep.catch((error: unknown) => {
    if (isDiskFull(error) || (error instanceof WavesmithError && couldNotWrite.test(error.message)))
      return "full" as const;
    throw error;
  });
}

/**
 * The paths of a task in the tree that its wave shares; null: all of the tree is the attempt's to
 * keep.
 */
export const ownWrites = ({ attempt, task }: AttemptInContext): readonly string[] | null =>
  sharedTreeAt(attempt.treePath) === null ? null : (task?.definition.writes ?? null);

/** Removes large files that the base does not have; returns the first few, in words. */
async function dropBulky(ports: Ports, { guest }: SandboxEndpoint, loaded: AttemptInContext): Promise<string[]> {
  const { attempt, build } = loaded;
  const { treePath } = attempt;
  const own = ownWrites(loaded);
  const found = await guest.exec({
    argv: ["find", ".", "-xdev", "-type", "f", "-size", `+${bulkyKib}k`, "-printf", "%k\\0%P\\0"],
    // Its files are for its own user to see.
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
    const path = parts[index + 1]!;
    if (path === "" || path.startsWith(".git/") || known.has(path)) continue;
    if (own !== null && !matchesAny(own, path)) continue;
    await guest.remove(`${treePath}/${path}`);
    dropped.push(`${path} (${Number(parts[index]) >> 10} MiB)`);
  }
  return dropped.length > 5 ? [...dropped.slice(0, 5), `and ${dropped.length - 5} more`] : dropped;
}

/** An agent that removed all there was: never taken for the wish to delete every file. */
const emptied: KeepResult = { commit: null, changed: [], refused: ["its tree was emptied"] };

export async function keepTree(
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
    `Wavesmith-Build: ${build.id}`,
    `Wavesmith-Wave: ${wave.number}`,
    ...(task === null ? [] : [`Wavesmith-Task: ${task.key}`]),
    `Wavesmith-Agent: ${attempt.role}`,
    `Wavesmith-Attempt: ${attempt.number}`,
    ...(attempt.kind === "fix" ? [`Fixes: ${attempt.gateRunId ?? attempt.approvalId}`] : []),
  ];
  return `${titles[attempt.kind]}\n\n${trailers.join("\n")}\n`;
}
