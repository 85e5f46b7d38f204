import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { ProjectId } from "../../domain/ids.ts";
import type { Plan } from "../../domain/plan.ts";
import { liveJobStatuses } from "../../domain/status.ts";
import type { GuestClient, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { BuildRow, JobRow } from "../../store/port.ts";
import { handoverPath, setupCacheFolder } from "../names.ts";
import type { Ports } from "../port.ts";
import { mebibyte, shell, stage, startJob } from "./job-stages.ts";

// The setup cache: what `setup` made in a clean tree, so that other trees copy it instead of making
// it again.
//
// C1. Only the job that fills an entry can write it. That job runs `setup` and nothing else, in a
// tree of its own, opened at a commit that is in main, so no attempt and no gate of a wave decides
// what the next gate restores.
// C2. Every other job copies from an entry; no file of a tree is a hard link into it.
// C3. An entry counts once `complete` is in it, which is written last and after the rest is on the
// disk.
// C4. One wave fills an entry once. Tasks that need it wait for that; when it failed, each runs
// `setup` itself.

const setupTimeoutMs = 15 * 60_000;

type Setup = NonNullable<Plan["setup"]>;

/** Earlier versions let every job write their `cache/setup`, so nothing there is used. */
const untrustedFolder = "cache/setup";
const fillTrees = "setup-trees";

/** The tree that is set up, and for whom. */
export interface SetupFrame {
  readonly ports: Ports;
  readonly endpoint: SandboxEndpoint;
  readonly plan: Plan;
  readonly projectId: ProjectId;
  readonly sha: string;
  readonly treePath: string;
  /** Other jobs work in this tree, too: it is set up once, with the plan's variables alone. */
  readonly shared?: boolean;
  /** Task-level variables over the plan's. */
  readonly env?: Readonly<Record<string, string>>;
  /** For whom the cache may be filled; absent unless the commit `sha` is in main. */
  readonly mayFill?: { readonly build: BuildRow; readonly waveId: string };
  /**
   * A folder of the job's own in place of the cache that tasks share; absent: the job has that one.
   */
  readonly ownCache?: string;
}

/** The stages that set up a tree, and the key of the job that fills the cache first. */
export interface SetupPlan {
  readonly stages: StageSpec[];
  readonly after: string | null;
}

export async function planSetup(frame: SetupFrame, env: Record<string, string>): Promise<SetupPlan> {
  const { setup } = frame.plan;
  if (setup === null) return { stages: [], after: null };
  if (setup.cache.length === 0) return { stages: [setupStage(frame, env, setup, "")], after: null };
  const { guest, workspaceRoot } = frame.endpoint;
  const entry = `${setupCacheFolder}/${await setupHash(frame, setup)}`;
  const isFilled = (await guest.stat(`${entry}/complete`)) !== null;
  const after =
    isFilled || frame.mayFill === undefined ? null : await fill(frame, frame.mayFill, { env, setup, entry });
  const from = isFilled || after !== null ? `${workspaceRoot}/${entry}` : "";
  return { stages: [setupStage(frame, env, setup, from)], after };
}

// An entry may be dropped while it is copied, to make room on the volume.
const restoreScript = `run=$1 entry=$2
if [ -n "$entry" ] && [ -e "$entry/complete" ] && cp -a --reflink=auto "$entry/files/." .; then
  echo "set up from the cache"
  exit 0
fi
exec sh -e -c "$run"`;

// The second task waits, and finds the tree set up. The lock dies with its holder, and setup's own
// processes do not inherit it. A setup that failed is tried again by the next task.
const sharedSetupScript = `run=$1 entry=$2 restore=$3
command -v flock > /dev/null || { echo "tasks that share a tree need flock (util-linux) in the sandbox" >&2; exit 1; }
mkdir -p .git
exec 9> .git/wavesmith-setup.lock
flock 9
if [ -e .git/wavesmith-setup-done ]; then echo "set up by another task of this wave"; exit 0; fi
sh -e -c "$restore" restore "$run" "$entry" 9>&-
: > .git/wavesmith-setup-done`;

function setupStage(frame: SetupFrame, env: Record<string, string>, setup: Setup, from: string): StageSpec {
  const base = { name: from === "" ? "setup" : "setup (from cache)", cwd: frame.treePath };
  if (frame.shared !== true) {
    const argv = ["sh", "-e", "-c", restoreScript, "restore", setup.run, from];
    return stage({ ...base, argv, env, timeoutMs: setupTimeoutMs });
  }
  const argv = ["sh", "-e", "-c", sharedSetupScript, "setup", setup.run, from, restoreScript];
  // Also the wait for the task that came first.
  return stage({ ...base, argv, env: withoutTaskEnv(frame, env), timeoutMs: 2 * setupTimeoutMs });
}

/** A tree that tasks share is set up with the plan's variables alone. */
function withoutTaskEnv(frame: SetupFrame, env: Record<string, string>): Record<string, string> {
  const own = Object.keys(frame.env ?? {}).filter((name) => frame.plan.env[name] === undefined);
  const rest = Object.entries({ ...env, ...frame.plan.env }).filter(([name]) => !own.includes(name));
  return Object.fromEntries(rest);
}

async function setupHash(frame: SetupFrame, setup: Setup): Promise<string> {
  const env = Object.entries({ ...frame.plan.env, ...(frame.shared === true ? {} : frame.env) }).sort();
  const hash = createHash("sha256").update(JSON.stringify([setup.run, env]));
  for (const path of setup.cache) {
    const blob = await frame.ports.workspace.readBlob(frame.projectId, frame.sha, path, {
      maxBytes: 16 * mebibyte,
    });
    hash.update(`\0${path}\0`).update(blob ?? "absent");
  }
  return hash.digest("hex").slice(0, 32);
}

// A setup that makes files which git does not ignore is never saved: a tree filled from the cache
// would lack them. Files are made readable for all, because each job may have a user of its own.
const saveScript = `set -e
entry=$1
made=$(git status --porcelain)
if [ -n "$made" ]; then
  echo "not cached: setup made files that git does not ignore:"
  echo "$made"
  : > "$entry/refused"
  exit 0
fi
find "$entry" -mindepth 1 -delete
mkdir "$entry/files"
git ls-files -z --others --ignored --exclude-standard --directory --no-empty-directory > "$entry/list"
tar --null -cf - -T "$entry/list" | tar -xf - -C "$entry/files"
chmod -R a+rX "$entry"
sync -f "$entry"
: > "$entry/complete"`;

const fillKey = (waveId: string, entry: string): string => `setup-${waveId}-${posix.basename(entry)}`;
const fillTree = (key: string): string => `${fillTrees}/${key}`;

/**
 * Starts the job that fills an entry, once for each wave. Returns its key while it may run, null
 * once it has ended.
 */
async function fill(
  frame: SetupFrame,
  { build, waveId }: NonNullable<SetupFrame["mayFill"]>,
  { env, setup, entry }: { env: Record<string, string>; setup: Setup; entry: string },
): Promise<string | null> {
  const { ports, endpoint, sha } = frame;
  const key = fillKey(waveId, entry);
  const known = await ports.store.jobs.find({ key });
  if (known !== null && known.status !== "intended") return known.status === "running" ? key : null;
  const treePath = fillTree(key);
  await endpoint.guest.remove(untrustedFolder, { recursive: true });
  await ports.workspace.openTree({
    projectId: build.projectId,
    guest: endpoint.guest,
    treePath,
    sha,
    reuse: "since-boot",
  });
  const ownCache = `${handoverPath(key)}/cache`;
  const alone = { ...frame, ownCache };
  const base = {
    env: withOwnCache(alone, frame.shared === true ? withoutTaskEnv(frame, env) : env),
    cwd: treePath,
    timeoutMs: setupTimeoutMs,
  };
  const argv = ["sh", "-c", saveScript, "save", `${endpoint.workspaceRoot}/${entry}`];
  const isAtWork = await startJob(ports, endpoint, {
    key,
    build,
    owner: { kind: "setup", id: waveId, fence: 0 },
    spec: {
      stages: [stage({ ...base, name: "setup", argv: shell(setup.run) }), stage({ ...base, name: "save", argv })],
      writable: [treePath, entry, ownCache],
      hidden: ["cache"],
      labels: { build: build.id, setup: entry },
    },
  });
  if (!isAtWork) await closeFill(ports, endpoint.guest, key);
  return isAtWork ? key : null;
}

/**
 * Leads variables that name the cache of tasks to the job's own one: what a task left in a package
 * cache decides nothing that a gate judges.
 */
export function withOwnCache(
  { endpoint, ownCache }: Pick<SetupFrame, "endpoint" | "ownCache">,
  env: Readonly<Record<string, string>>,
): Record<string, string> {
  if (ownCache === undefined) return { ...env };
  const shared = `${endpoint.workspaceRoot}/cache`;
  const own = `${endpoint.workspaceRoot}/${ownCache}`;
  const lead = (value: string) =>
    value === shared || value.startsWith(`${shared}/`) ? own + value.slice(shared.length) : value;
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, lead(value)]));
}

/** Removes what a fill left on the volume besides its entry. Safe to call again. */
export async function closeFill(ports: Ports, guest: GuestClient, key: string): Promise<void> {
  await ports.workspace.closeTree(guest, fillTree(key));
  await guest.remove(handoverPath(key), { recursive: true });
  await guest.forgetJob(key);
}

/** Closes the fills whose watcher died before it could. */
export async function sweepFills(ports: Ports, guest: GuestClient): Promise<void> {
  if ((await guest.stat(fillTrees)) === null) return;
  for (const { path } of await guest.list(fillTrees)) {
    const key = posix.basename(path);
    if ((await ports.store.jobs.find({ key }))?.status === "ended") await closeFill(ports, guest, key);
  }
}

/** The fills of a build that have not ended. */
export const liveFills = ({ store }: Pick<Ports, "store">, buildId: string): Promise<JobRow[]> =>
  store.jobs.list({ buildId, ownerKind: "setup", status: liveJobStatuses });
