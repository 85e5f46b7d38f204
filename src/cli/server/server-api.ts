import type { Client } from "../../client/client.ts";
import type { Context } from "../context.ts";

/** The routes of a server, with failures in the words of commands. */
export interface ServerApi {
  readonly url: string;
  readonly key: string | null;
  readonly api: Client["api"];
  /** Waits for what a route answers. */
  ask<Data>(call: Promise<{ data?: Data; error?: unknown; response: Response }>): Promise<Data>;
}

/** Opens the server that a command works on; null if it works on a data directory. */
export async function serverApi(context: Context): Promise<ServerApi | null> {
  const server = await context.server();
  if (server === null) return null;
  const [{ fetchPatiently }, { inOurWords }, { createClient, dataOf }] = await Promise.all([
    import("./patient-fetch.ts"),
    import("./server-errors.ts"),
    import("../../client/client.ts"),
  ]);
  const { url, key } = server;
  const { api } = createClient({ baseUrl: url, fetch: fetchPatiently, ...(key === null ? {} : { key }) });
  return { ...server, api, ask: (call) => inOurWords(dataOf(call)) };
}
