import type { Context } from "../context.ts";
import { type App, type Database, openStore } from "../parts.ts";
import { createPresenter } from "../view/presenter.ts";
import { requireBuilds } from "./find-build.ts";
import { withSession } from "./session.ts";

export interface Steering {
  readonly app: App;
  /** For checking whether another process drives the build. */
  readonly database: Database;
}

/**
 * Opens the app for a command that changes a build without driving it, even while another command
 * drives it. Fails with `not-found` if nothing was ever built.
 */
export async function withSteering(context: Context, work: (steering: Steering) => Promise<number>): Promise<number> {
  await requireBuilds(context);
  const presenter = createPresenter(context);
  try {
    return await withSession(context, presenter, async ({ app, config }) => {
      const { database, close } = await openStore(config, "steer");
      presenter.close();
      try {
        return await work({ app, database });
      } finally {
        await close();
      }
    });
  } finally {
    presenter.close();
  }
}
