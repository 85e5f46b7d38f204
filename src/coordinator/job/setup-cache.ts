import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { ProjectId } from "../../domain/ids.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { handoverPath, setupCacheFolder } from "../../domain/sandbox/volume-paths.ts";
import { liveJobStatuses } from "../../domain/status.ts";
import type { GuestClient, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { BuildRow, JobRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { mebibyte, shellArgv, stage, startJob } from "./job-stages.ts";
import { missingInputs } from "./setup-inputs.ts";
import { restoreScript, saveScript, sharedSetupScript, skipScript } from "./setup-scripts.ts";

// The setup cache stores the result of `setup` in a clean tree, so that other trees can copy it.
//
// SC1. Only the job that fills an entry can write it. That job runs only `setup`, in its own tree
// at a commit that is in main, so no attempt or gate of a wave can affect what the next gate
// restores.
// SC2. Every other job copies from an entry; no file of a tree is a hard link into it.
// SC3. An entry is valid once it contains `complete`, which is written last, after the rest is
// flushed.
// SC4. A wave fills an entry at most once. Tasks that need it wait; if that fails, each runs
// `setup` itself. What cannot be restored elsewhere is marked `refused` and not tried again.
// SC5. A tree of another commit restores an entry only if the files that setup changed are the same
// there as they were where it was filled.

const setupTimeoutMs = 15 * 60_000;

type Setup = NonNullable<Plan["setup"]>;

/** In earlier versions every job could write `cache/setup`, so we ignore its content. */
const untrustedFolder = "cache/setup";
const fillTrees = "setup-trees";

/** A tree to set up, and the job it is for. */
export interface SetupFrame {
  readonly ports: Ports;
  readonly endpoint: SandboxEndpoint;
  readonly plan: Plan;
  readonly projectId: ProjectId;
  readonly sha: string;
  readonly treePath: string;
  /**
   * Whether other jobs share this tree, which is then set up once, with the plan's variables only.
   */
  readonly shared?: boolean;
  /** The task's variables, which override the plan's. */
  readonly env?: Readonly<Record<string, string>>;
  /** The build and wave for which to fill the cache; absent unless the commit `sha` is in main. */
  readonly mayFill?: { readonly build: BuildRow; readonly waveId: string };
  /** The job's own cache folder; absent if it uses the cache that tasks share. */
  readonly ownCache?: string;
}

/** The stages that set up a tree, and the key of the job that must fill the cache first. */
export interface SetupPlan {
  readonly stages: StageSpec[];
  readonly after: string | null;
}

export async function planSetup(frame: SetupFrame, env: Record<string, string>): Promise<SetupPlan> {
  const { setup } = frame.plan;
  if (setup === null) return { stages: [], after: null };
  const lacks = await missingInputs(frame, setup.run);
  if (lacks !== null) return { stages: [skippedStage(frame, env, lacks)], after: null };
  if (setup.cache.length === 0) return { stages: [setupStage(frame, env, setup, "")], after: null };
  const { guest, workspaceRoot } = frame.endpoint;
  const entry = `${setupCacheFolder}/${await setupHash(frame, setup)}`;
  const [isFilled, isRefused] = await Promise.all(
    ["complete", "refused"].map(async (name) => (await guest.stat(`${entry}/${name}`)) !== null),
  );
  const { mayFill } = frame;
  const after =
    isFilled || isRefused || mayFill === undefined ? null : await fill(frame, mayFill, { env, setup, entry });
  const from = isFilled || after !== null ? `${workspaceRoot}/${entry}` : "";
  return { stages: [setupStage(frame, env, setup, from)], after };
}

function setupStage(frame: SetupFrame, env: Record<string, string>, setup: Setup, from: string): StageSpec {
  const base = { name: from === "" ? "setup" : "setup (from cache)", cwd: frame.treePath };
  if (frame.shared !== true) {
    const argv = ["sh", "-e", "-c", restoreScript, "restore", setup.run, from];
    return stage({ ...base, argv, env, timeoutMs: setupTimeoutMs });
  }
  const argv = ["sh", "-e", "-c", sharedSetupScript, "setup", setup.run, from, restoreScript];
  // Includes the wait for the task that came first.
  return stage({ ...base, argv, env: withoutTaskEnv(frame, env), timeoutMs: 2 * setupTimeoutMs });
}

function skippedStage(frame: SetupFrame, env: Record<string, string>, lacks: string): StageSpec {
  const argv = ["sh", "-c", skipScript, "skip", lacks];
  return stage({ name: "setup", cwd: frame.treePath, argv, env, timeoutMs: setupTimeoutMs });
}

/** Removes the task's own variables, because a shared tree is set up with the plan's alone. */
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

const fillKey = (waveId: string, entry: string): string => `setup-${waveId}-${posix.basename(entry)}`;
const fillTree = (key: string): string => `${fillTrees}/${key}`;

/**
 * Starts the job that fills an entry, once per wave. Returns its key, or null once it has ended.
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
      stages: [stage({ ...base, name: "setup", argv: shellArgv(setup.run) }), stage({ ...base, name: "save", argv })],
      writable: [treePath, entry, ownCache],
      hidden: ["cache"],
      labels: { build: build.id, setup: entry },
    },
  });
  if (!isAtWork) await closeFill(ports, endpoint.guest, key);
  return isAtWork ? key : null;
}

/** Points variables at the job's own cache, so that a task's package cache cannot affect a gate. */
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

/** Removes a fill's files from the volume, except its entry. Safe to call twice. */
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

/** Lists a build's fills that have not ended. */
export const liveFills = ({ store }: Pick<Ports, "store">, buildId: string): Promise<JobRow[]> =>
  store.jobs.list({ buildId, ownerKind: "setup", status: liveJobStatuses });
