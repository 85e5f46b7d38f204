import { createHash } from "node:crypto";
import type { Plan } from "../domain/plan.ts";
import type { JobSpec, JobState, SandboxEndpoint, StageSpec } from "../sandbox/port.ts";
import { agentFileSearch } from "./agent-file-search.ts";
import type { Ports } from "./port.ts";
import { requireVolumeRoom } from "./volume-limit.ts";

// A job's stages: setup (from the cache when it can be), services, then what the job is for.

const mebibyte = 1024 * 1024;
const setupTimeoutMs = 15 * 60_000;
const serviceReadyMs = 60_000;

export const shell = (script: string): string[] => ["sh", "-e", "-c", script];

export interface JobFrame {
  readonly ports: Ports;
  readonly endpoint: SandboxEndpoint;
  readonly plan: Plan;
  readonly projectId: string;
  readonly sha: string;
  readonly treePath: string;
  /** Other jobs work in this tree, too: it is set up once, with the plan's variables alone. */
  readonly shared?: boolean;
  /** Task-level variables over the plan's. */
  readonly env?: Readonly<Record<string, string>>;
  /** Commands of this job, to know which services it needs; null: it may need any. */
  readonly mentions: readonly string[] | null;
}

export interface JobSetting {
  readonly env: Record<string, string>;
  /** Setup and services, to go before the job's own stages. */
  readonly stages: StageSpec[];
  readonly port: number;
  readonly writable: string[];
}

/** The environment, ports, setup and services of a job in a tree. */
export async function frameJob(frame: JobFrame): Promise<JobSetting> {
  const { ports, endpoint, plan } = frame;
  const services = neededServices(frame);
  const [port, ...servicePorts] = await endpoint.guest.allocatePorts(1 + services.length);
  const env: Record<string, string> = {
    ...plan.env,
    ...frame.env,
    ...ports.secrets.values(plan.secrets),
    PORT: String(port),
  };
  services.forEach(([name], index) => {
    env[portVariable(name)] = String(servicePorts[index]);
  });
  const stages = [
    ...(await setupStages(frame, env)),
    ...services.map(([name, service]) => serviceStage(frame, env, name, service)),
  ];
  return { env, stages, port: port!, writable: [frame.treePath, "cache"] };
}

const portVariable = (service: string): string => `PORT_${service.toUpperCase().replaceAll("-", "_")}`;

/** Services a job's commands mention by their port; all of them for an agent, whose needs are unknown. */
function neededServices(frame: JobFrame): [string, Plan["services"][string]][] {
  const all = Object.entries(frame.plan.services);
  const { mentions } = frame;
  if (mentions === null || all.length === 0) return all;
  const asked = new Set<string>();
  const visit = (text: string): void => {
    for (const [name, service] of all) {
      if (asked.has(name) || !text.includes(portVariable(name))) continue;
      asked.add(name);
      visit(service.command);
    }
  };
  mentions.forEach(visit);
  if (frame.plan.setup !== null) visit(frame.plan.setup.run);
  return all.filter(([name]) => asked.has(name));
}

interface StageOptions {
  readonly name: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly timeoutMs: number;
  readonly continueOnFailure?: boolean;
}

export function stage(options: StageOptions): StageSpec {
  return { stdin: null, outputLimitBytes: 8 * mebibyte, ...options };
}

function serviceStage(
  frame: JobFrame,
  env: Record<string, string>,
  name: string,
  service: Plan["services"][string],
): StageSpec {
  const base = stage({
    name: `service ${name}`,
    argv: shell(service.command),
    env,
    cwd: frame.treePath,
    timeoutMs: serviceReadyMs,
  });
  const ready = { argv: service.ready === null ? ["true"] : shell(service.ready) };
  return { ...base, background: true, ready };
}

// Saved beside and renamed, so that a cache entry is whole or absent; a second saver loses and tidies up. Each job has
// its own process numbers, so they make no name of its own. A setup that makes files which git does not ignore is not
// saved: a tree filled from the cache would lack them. What cannot be saved is set up again the next time. It is on the
// disk before it counts: a power cut would else leave an entry of empty files, for every task from then on.
const saveScript = `
[ -e "$1/complete" ] && exit 0
made=$(git status --porcelain) && [ -z "$made" ] || exit 0
mkdir -p "\${1%/*}" && work=$(mktemp -d "$1.XXXXXXXX") || exit 0
chmod 755 "$work" && mkdir "$work/files" &&
  git ls-files -z --others --ignored --exclude-standard --directory --no-empty-directory > "$work/list" &&
  tar --null -cf - -T "$work/list" | tar -xf - -C "$work/files" &&
  touch "$work/complete" && { [ -e "$1/complete" ] || sync -f "$work"; } && mv -T "$work" "$1" 2> /dev/null || rm -rf "$work"
`;
// The cache is written by jobs. What one of them put there for agents to read is not spread: setup is run again.
const plantedScript = `
planted() {
  found=$(cd "$1/files" && shift && find . "$@" -print -quit) || return 0
  [ -n "$found" ] || return 1
  echo "the cache of setup is not used: it holds $found, which agents take as instructions"
}`;
/** Args: the cache's entry, setup's script, what finds files of agents. */
const restoreScript = `${plantedScript}
entry=$1 run=$2
shift 2
if planted "$entry" "$@"; then exec sh -e -c "$run"; fi
cp -a --reflink=auto "$entry/files/." .`;

async function setupStages(frame: JobFrame, env: Record<string, string>): Promise<StageSpec[]> {
  const { setup } = frame.plan;
  if (setup === null) return [];
  if (frame.shared === true) return [await sharedSetupStage(frame, env, setup)];
  const base = { env, cwd: frame.treePath, timeoutMs: setupTimeoutMs };
  const run = stage({ ...base, name: "setup", argv: shell(setup.run) });
  if (setup.cache.length === 0) return [run];
  const folder = `cache/setup/${await setupHash(frame, setup)}`;
  const inside = `${frame.endpoint.workspaceRoot}/${folder}`;
  if ((await frame.endpoint.guest.stat(`${folder}/complete`)) !== null) {
    const restore = ["sh", "-e", "-c", restoreScript, "restore", inside, setup.run, ...agentFileSearch];
    return [stage({ ...base, name: "setup (from cache)", argv: restore })];
  }
  const save = stage({ ...base, name: "save setup cache", argv: ["sh", "-c", saveScript, "save", inside] });
  return [run, { ...save, continueOnFailure: true }];
}

// Whoever comes second waits, and finds it done. The lock dies with who holds it, and is nothing that setup's own
// processes inherit. A setup that failed is tried again by the next.
const sharedSetupScript = `${plantedScript}
run=$1 entry=$2 save=$3
shift 3
command -v flock > /dev/null || { echo "tasks that share a tree need flock (util-linux) in the sandbox" >&2; exit 1; }
mkdir -p .git
exec 9> .git/wavesmith-setup.lock
flock 9
if [ -e .git/wavesmith-setup-done ]; then echo "set up by another task of this wave"; exit 0; fi
if [ -n "$entry" ] && [ -e "$entry/complete" ] && ! planted "$entry" "$@"; then
  cp -a --reflink=auto "$entry/files/." .
else
  sh -e -c "$run" 9>&-
  if [ -n "$entry" ]; then sh -c "$save" save "$entry" 9>&- || :; fi
fi
: > .git/wavesmith-setup-done`;

async function sharedSetupStage(
  frame: JobFrame,
  env: Record<string, string>,
  setup: NonNullable<Plan["setup"]>,
): Promise<StageSpec> {
  const { env: _, ...ofPlan } = frame;
  const inside =
    setup.cache.length === 0 ? "" : `${frame.endpoint.workspaceRoot}/cache/setup/${await setupHash(ofPlan, setup)}`;
  const argv = ["sh", "-e", "-c", sharedSetupScript, "setup", setup.run, inside, saveScript, ...agentFileSearch];
  const own = Object.keys(frame.env ?? {}).filter((name) => frame.plan.env[name] === undefined);
  const rest = Object.entries({ ...env, ...frame.plan.env }).filter(([name]) => !own.includes(name));
  // Also the wait for whoever came first.
  const timeoutMs = 2 * setupTimeoutMs;
  return stage({ name: "setup", argv, env: Object.fromEntries(rest), cwd: frame.treePath, timeoutMs });
}

async function setupHash(frame: JobFrame, setup: NonNullable<Plan["setup"]>): Promise<string> {
  const env = Object.entries({ ...frame.plan.env, ...frame.env }).sort();
  const hash = createHash("sha256").update(JSON.stringify([setup.run, env]));
  for (const path of setup.cache) {
    const blob = await frame.ports.workspace.readBlob(frame.projectId as never, frame.sha, path, {
      maxBytes: 16 * mebibyte,
    });
    hash.update(`\0${path}\0`).update(blob ?? "absent");
  }
  return hash.digest("hex").slice(0, 32);
}

export interface StartJobRequest {
  readonly key: string;
  readonly build: { readonly id: string; readonly projectId: string };
  readonly owner: { readonly kind: "attempt" | "gate" | "preview"; readonly id: string; readonly fence: number };
  readonly spec: JobSpec;
}

/**
 * Records the intent, starts the job, records that it runs. Doing it again starts nothing twice: false when the job is over
 * already, and whoever was slower has to clear away what he made for it. Fails with `capacity` when the sandbox's volume is
 * above its limit.
 */
export async function startJob(ports: Ports, endpoint: SandboxEndpoint, request: StartJobRequest): Promise<boolean> {
  const { key, build, owner, spec } = request;
  await requireVolumeRoom(ports, build.projectId, key);
  const isNew = await ports.store.jobs.insertIfAbsent({
    key,
    buildId: build.id,
    projectId: build.projectId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    ownerFence: owner.fence,
    status: "intended",
    createdAt: ports.clock.now(),
  });
  if (isNew === null && (await isOver(ports, key))) return false;
  await endpoint.guest.startJob(key, { ...spec, labels: { ...spec.labels, machine: ports.machine.boot() } });
  const [running] = await ports.store.jobs.update({ key, status: "intended" }, { status: "running" });
  ports.wakeWatcher();
  if (running !== undefined || !(await isOver(ports, key))) return true;
  // It ended, was judged and forgotten, all since we looked: what we started is another one.
  await endpoint.guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  return false;
}

const isOver = async ({ store }: Ports, key: string): Promise<boolean> =>
  (await store.jobs.get({ key })).status === "ended";

/**
 * Whether the machine was started anew since the job began. Files on the volume wait for no disk: what it wrote may be
 * empty after a power cut, though its end is on record.
 */
export const isOfEarlierBoot = (ports: Ports, { labels }: JobState): boolean =>
  (labels.machine ?? ports.machine.boot()) !== ports.machine.boot();

/** Ends a job whose end nobody will judge, so that nothing of it is left. False when there never was one. */
export async function dropJob(ports: Ports, { guest }: SandboxEndpoint, key: string): Promise<boolean> {
  const job = await ports.store.jobs.find({ key });
  if (job === null || job.status === "ended") return job !== null;
  const state = await guest.cancelJob(key, { reason: "given up", graceMs: 2_000 });
  const ended = { status: "ended", state, endedAt: ports.clock.now(), leaseOwner: null, leaseUntil: null } as const;
  await ports.store.jobs.update({ key, status: ["intended", "running"] }, ended);
  return true;
}
