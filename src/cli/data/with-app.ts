import { type Context, refuseServer } from "../context.ts";
import { type App, openApp } from "../parts.ts";

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
