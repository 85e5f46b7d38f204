import { isDiskFull } from "../../domain/disk-full.ts";
import { isServed, markAllServed } from "../../store/serving.ts";
import type { Context } from "../context.ts";
import { createDeliversServed } from "../driving/deliver-served.ts";
import { type App, openApp, openStore } from "../parts.ts";
import { stopIdleSandbox } from "./session.ts";

type OnEvent = NonNullable<NonNullable<Parameters<typeof openApp>[2]>["onEvent"]>;

/** Opens the app for a command that may drive every project, and settles what it leaves behind. */
export async function withServedApp(
  context: Context,
  onEvent: OnEvent,
  work: (app: App) => Promise<void>,
): Promise<void> {
  const config = await context.config();
  const mark = await openStore(config, "serve");
  try {
    const delivering = createDeliversServed(context, config, () => app);
    const look: OnEvent = (event) => {
      onEvent(event);
      delivering.look(event);
    };
    const app = await openApp(config, context.warn, { onEvent: look });
    const serving = await markAllServed(mark.database);
    try {
      await work(app);
    } finally {
      await delivering.end();
      await app.close().catch((error: unknown) => {
        if (!isDiskFull(error)) throw error;
        context.warn("the disk is full: this process's work is released when its leases expire");
      });
      await serving.end();
    }
    await settle(context, app, mark);
  } finally {
    await mark.close();
  }
}

/** Stops the sandboxes nobody needs and reports those that keep running. */
async function settle(context: Context, app: App, mark: Awaited<ReturnType<typeof openStore>>): Promise<void> {
  let left = 0;
  for (const { projectId } of await mark.store.sandboxes.list({ state: ["wanted", "running"] })) {
    if (await isServed(mark.database, projectId)) continue;
    if ((await stopIdleSandbox(app, mark.store, projectId)) === "at-work") left += 1;
  }
  const unfinished = (await mark.store.unfinishedProjects()).length;
  if (unfinished > 0) context.out.note(`projects with an unfinished build: ${unfinished}`);
  if (left === 0) return;
  const these = left === 1 ? "1 sandbox keeps running its jobs" : `${left} sandboxes keep running their jobs`;
  context.out.note(`${these}; the next serve, or \`wavesmith resume\` of a build, picks them up`);
}
