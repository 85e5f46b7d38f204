import { projectIdFor } from "../coordinator/build/start-build.ts";
import { WavesmithError } from "../domain/errors.ts";
import { shellWord } from "../domain/shell-word.ts";
import type { Context } from "./context.ts";
import { type App, isUsed, openApp, type SandboxRow } from "./parts.ts";

const present = ["wanted", "running", "stopped", "lost"] as const;

/** Lends the wired parts to a command that drives nothing. */
export async function withApp<T>(context: Context, work: (app: App) => Promise<T>): Promise<T> {
  const app = await openApp(await context.config(), context.warn);
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}

export interface WhichSandbox {
  /** Also one that was removed and whose volume was kept. */
  readonly orVolume?: boolean;
  /** Also the last one of a project that has nothing left but its record. */
  readonly orRecord?: boolean;
}

/**
 * The sandbox that is named by its project's name or id, or by its own id. Fails with `not-found`.
 */
export async function withSandbox(
  context: Context,
  name: string,
  work: (app: App, sandbox: SandboxRow) => Promise<number>,
  which: WhichSandbox = {},
): Promise<number> {
  const config = await context.config();
  const none = (): WavesmithError =>
    new WavesmithError("not-found", `there is no sandbox of ${name} in ${config.dataDir}`, {
      remedy: `see ${context.hints.command("sandbox ls")}`,
    });
  if (!isUsed(config)) throw none();
  return withApp(context, async (app) => {
    const sandbox = await findSandbox(app, name, which);
    if (sandbox !== null) return work(app, sandbox);
    // `sandbox ls` lists it all the same.
    if ((await findSandbox(app, name, { orVolume: true })) === null) throw none();
    throw new WavesmithError("not-found", `the sandbox of ${name} is removed, and only its volume is kept`, {
      remedy: context.hints.command(`sandbox start ${shellWord(name)}`),
    });
  });
}

async function findSandbox({ store, ports }: App, name: string, which: WhichSandbox): Promise<SandboxRow | null> {
  const named = await store.sandboxes.find({ id: name });
  const projectId = named === null ? [name, projectIdFor("default", name)] : [named.projectId];
  const live = await store.sandboxes.find({ projectId, state: present });
  if (live !== null) return live;
  const last = await store.sandboxes.find({ projectId, state: "removed" }, { by: "createdAt", descending: true });
  if (last === null || which.orRecord === true) return last;
  if (which.orVolume !== true) return null;
  const infos = await ports.driver(last.driver).list();
  return infos.some((info) => info.projectId === last.projectId && info.volumePath !== null) ? last : null;
}

/** Starts a sandbox as the last build of its project wants it. */
export async function startedSandbox(app: App, sandbox: SandboxRow) {
  const build = await app.store.builds.find({ projectId: sandbox.projectId }, { by: "position", descending: true });
  if (build === null) throw new WavesmithError("not-found", `no build of ${sandbox.projectId} is known`);
  const { ensureSandbox } = await import("../coordinator/sandboxes/sandboxes.ts");
  return ensureSandbox(app.ports, { ...build, sandboxDriver: sandbox.driver });
}
