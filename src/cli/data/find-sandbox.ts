import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { type Context, refuseServer } from "../context.ts";
import { type App, isUsed, openApp, type SandboxRow } from "../parts.ts";

const present = ["wanted", "running", "stopped", "lost"] as const;

/** Opens the app for a command that drives no build. */
export async function withApp<T>(context: Context, work: (app: App) => Promise<T>): Promise<T> {
  await refuseServer(context);
  const app = await openApp(await context.config(), context.warn);
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}

export interface WhichSandbox {
  /** Also accept a removed sandbox whose volume was kept. */
  readonly orVolume?: boolean;
  /** Also accept the last sandbox of a project that has only its record left. */
  readonly orRecord?: boolean;
}

/** Finds a sandbox by its id, or by its project's name or id. Fails with `not-found`. */
export async function withSandbox(
  context: Context,
  name: string,
  work: (app: App, sandbox: SandboxRow) => Promise<number>,
  which: WhichSandbox = {},
): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  const none = (): WavesmithError =>
    new WavesmithError("not-found", `there is no sandbox of ${name} in ${config.dataDir}`, {
      remedy: `see ${context.hints.command("sandbox ls")}`,
    });
  if (!isUsed(config)) throw none();
  return withApp(context, async (app) => {
    const sandbox = await findSandbox(app, name, which);
    if (sandbox !== null) return work(app, sandbox);
    // `sandbox ls` still lists it.
    if ((await findSandbox(app, name, { orVolume: true })) === null) throw none();
    throw new WavesmithError("not-found", `the sandbox of ${name} was removed; only its volume is kept`, {
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
