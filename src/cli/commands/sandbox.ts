import { projectIdFor } from "../../coordinator/start-build.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { exit as exits } from "../errors.ts";
import { bytes, table } from "../format.ts";
import { type InputStream, readInput } from "../input.ts";
import { type App, isUsed, openApp, type SandboxInfo, type SandboxRow } from "../parts.ts";

type Row = {
  readonly project: string;
  readonly projectId: string;
  readonly driver: string;
  readonly state: string;
  readonly since: string | null;
  readonly diskBytes: number | null;
};

const live = ["wanted", "running", "stopped"] as const;
/** What is told of a sandbox that was removed without its volume. */
const volumeKept = "removed, volume kept";

/** `sandbox ls`: every sandbox of this data directory. */
export async function list(context: Context): Promise<number> {
  const rows = isUsed(await context.config()) ? await withApp(context, rowsOf) : [];
  if (context.json) {
    context.out.json({ sandboxes: rows });
    return exits.ok;
  }
  if (rows.length === 0) context.out.line("no sandboxes");
  const lines = rows.map(({ project, projectId, driver, state, since, diskBytes }) => [
    project,
    projectId,
    driver,
    since === null ? state : `${state} since ${since.slice(0, 19)}Z`,
    diskBytes === null ? "" : bytes(diskBytes),
  ]);
  for (const line of table(lines)) context.out.line(line);
  return exits.ok;
}

async function rowsOf(app: App): Promise<Row[]> {
  const sandboxes = await app.store.sandboxes.list({ state: [...live] }, { by: "createdAt" });
  const removed = await removedSandboxes(app, new Set(sandboxes.map(({ projectId }) => projectId)));
  const projects = new Map((await app.store.projects.list({})).map(({ id, name }) => [id, name]));
  const infos = new Map<string, SandboxInfo>();
  for (const driver of new Set([...sandboxes, ...removed].map((row) => row.driver))) {
    for (const info of await app.ports.driver(driver).list()) infos.set(`${driver} ${info.projectId}`, info);
  }
  return [...sandboxes, ...removed].flatMap(({ projectId, driver, state }): Row[] => {
    const info = infos.get(`${driver} ${projectId}`);
    if (state === "removed" && (info?.volumePath ?? null) === null) return [];
    return [
      {
        project: projects.get(projectId) ?? projectId,
        projectId,
        driver,
        state: state === "removed" ? volumeKept : runs(info) ? "running" : "stopped",
        since: info?.startedAt ?? null,
        diskBytes: info?.diskBytes ?? null,
      },
    ];
  });
}

const runs = (info: SandboxInfo | undefined): boolean => info?.state === "running";

/** Of each project that has no sandbox, the one it had last. */
async function removedSandboxes({ store }: App, withSandboxes: ReadonlySet<string>): Promise<SandboxRow[]> {
  const rows = await store.sandboxes.list({ state: "removed" }, { by: "createdAt" });
  const last = new Map(rows.map((row) => [row.projectId, row]));
  return [...last.values()].filter(({ projectId }) => !withSandboxes.has(projectId));
}

/** `sandbox exec PROJECT -- CMD…`: runs a command in the sandbox; its output and exit code are this command's. */
export async function exec(
  context: Context,
  project: string,
  argv: readonly string[],
  input: InputStream = process.stdin,
): Promise<number> {
  const stdin = await readInput(input, context.warn);
  return withSandbox(context, project, async (app, sandbox) => {
    const before = await app.ports.driver(sandbox.driver).find(sandbox.projectId as never);
    const endpoint = before ?? (await started(app, sandbox));
    const result = await endpoint.guest.exec({
      argv,
      cwd: "repo",
      env: {},
      ...(stdin === "" ? {} : { stdin }),
      writable: ["repo"],
      timeoutMs: 5 * 60_000,
      maxBytes: 8 * 1024 * 1024,
    });
    context.out.raw(result.stdout);
    context.out.rawError(result.stderr);
    if (result.truncated) context.warn("its output was longer than 8 MiB: the rest is left out");
    if (result.timedOut) context.warn("it was ended after 5 minutes");
    if (before === null) await stopped(app, sandbox);
    return result.exitCode ?? exits.failed;
  });
}

/** `sandbox start PROJECT` */
export function start(context: Context, project: string): Promise<number> {
  const work = async (app: App, sandbox: SandboxRow): Promise<number> => {
    const { workspaceRoot } = await started(app, sandbox);
    context.out.line(`the sandbox of ${project} runs (${sandbox.driver}, its volume is ${workspaceRoot} inside)`);
    return exits.ok;
  };
  return withSandbox(context, project, work, { orVolume: true });
}

/** `sandbox stop PROJECT`: its volume stays. */
export function stop(context: Context, project: string): Promise<number> {
  return withSandbox(context, project, async (app, sandbox) => {
    await refuseWhileBuilding(context, app, sandbox, project);
    await stopped(app, sandbox);
    context.out.line(`the sandbox of ${project} is stopped`);
    return exits.ok;
  });
}

/** `sandbox rm PROJECT [--volume]` */
export function remove(context: Context, project: string, options: { volume: boolean }): Promise<number> {
  const work = async (app: App, sandbox: SandboxRow): Promise<number> => {
    await refuseWhileBuilding(context, app, sandbox, project);
    const { removeSandbox } = await import("../../coordinator/stop-sandbox.ts");
    await removeSandbox(app.ports, sandbox, options);
    const rest = options.volume ? "with its volume; the repository stays" : "and its volume kept (--volume removes it)";
    context.out.line(`the sandbox of ${project} is removed, ${rest}`);
    return exits.ok;
  };
  return withSandbox(context, project, work, { orVolume: true });
}

async function started(app: App, sandbox: SandboxRow) {
  const build = await app.store.builds.find({ projectId: sandbox.projectId }, { by: "position", descending: true });
  if (build === null) throw new WavesmithError("not-found", `no build of ${sandbox.projectId} is known`);
  const { ensureSandbox } = await import("../../coordinator/sandboxes.ts");
  return ensureSandbox(app.ports, { ...build, sandboxDriver: sandbox.driver });
}

async function stopped(app: App, sandbox: SandboxRow): Promise<void> {
  const { stopSandbox } = await import("../../coordinator/stop-sandbox.ts");
  await stopSandbox(app.ports, await app.store.sandboxes.get({ id: sandbox.id }));
}

/** A build's agents are not pulled from under it: their work would be lost. */
async function refuseWhileBuilding(context: Context, app: App, sandbox: SandboxRow, project: string): Promise<void> {
  const { projectId } = sandbox;
  const build = await app.store.builds.find({ projectId, status: ["running", "cancelling"] });
  if (build === null) return;
  const { hints } = context;
  throw new WavesmithError(
    "conflict",
    `build ${build.id} of ${project} is not over, and its agents work in this sandbox`,
    {
      remedy: `${hints.command(`cancel ${build.id}`)}, or let it end: ${hints.command(`resume ${build.id}`)}`,
    },
  );
}

async function withApp<T>(context: Context, work: (app: App) => Promise<T>): Promise<T> {
  const app = await openApp(await context.config(), context.warn);
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}

/**
 * The sandbox of a project that is named by its name or its id; with `orVolume` also one that was removed and whose
 * volume was kept. Fails with `not-found`.
 */
async function withSandbox(
  context: Context,
  project: string,
  work: (app: App, sandbox: SandboxRow) => Promise<number>,
  { orVolume } = { orVolume: false },
): Promise<number> {
  const config = await context.config();
  const none = (): WavesmithError =>
    new WavesmithError("not-found", `there is no sandbox of ${project} in ${config.dataDir}`, {
      remedy: `see ${context.hints.command("sandbox ls")}`,
    });
  if (!isUsed(config)) throw none();
  return withApp(context, async (app) => {
    const ids = [project, projectIdFor("default", project)];
    const present = await app.store.sandboxes.find({ projectId: ids, state: [...live] });
    const sandbox = present ?? (orVolume ? await withKeptVolume(app, ids) : null);
    if (sandbox === null) throw none();
    return work(app, sandbox);
  });
}

async function withKeptVolume(app: App, projectIds: readonly string[]): Promise<SandboxRow | null> {
  const row = await app.store.sandboxes.find(
    { projectId: projectIds, state: "removed" },
    { by: "createdAt", descending: true },
  );
  if (row === null) return null;
  const infos = await app.ports.driver(row.driver).list();
  return infos.some(({ projectId, volumePath }) => projectId === row.projectId && volumePath !== null) ? row : null;
}
