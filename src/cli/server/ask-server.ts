import { viewFromJson } from "../../api/view-json.ts";
import { type Client, createClient, dataOf } from "../../client/client.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { Context, Server } from "../context.ts";
import { inOurWords } from "./server-errors.ts";

/** A build as `GET /builds/{id}/view` answers. */
export interface SentBuild {
  readonly view: BuildView;
  readonly repository: string;
  readonly planFile: string | null;
  readonly buildAhead: string | null;
  readonly lastEvent: number | null;
}

/** Requests to a server, with failures worded as commands print them. */
export interface Asking {
  readonly client: Client;
  sent(buildId: string): Promise<SentBuild>;
  /** Warns that the connection is lost, and that we wait for the server. */
  reportLost(): void;
}

/** Opens a server for commands. It connects with the first request. */
export function askServer({ url, key }: Server, warn: Context["warn"]): Asking {
  const client = createClient({ baseUrl: url, ...(key === null ? {} : { key }) });
  return {
    client,
    reportLost: () => warn(`lost the connection to ${url}; waiting for the server`),
    async sent(id) {
      const answer = client.api.GET("/api/v1/builds/{id}/view", { params: { path: { id } } });
      const { view, ...rest } = await inOurWords(dataOf(answer));
      return { ...rest, view: viewFromJson(view) };
    },
  };
}
