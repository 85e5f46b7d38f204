import { basename } from "node:path";
import { startServer } from "../../src/server/server.ts";
import { createBuildFixture } from "./build-fixture.ts";

/** A server that answers MCP, and drives the builds of one project. */
interface ServedMcp {
  readonly url: string;
  readonly key: string;
  /** The name of the project. */
  readonly project: string;
  close(): Promise<void>;
}

/** Starts the server with its own data directory. */
export async function serveMcp(): Promise<ServedMcp> {
  const { app, close } = await createBuildFixture();
  const key = "s3cret";
  const server = await startServer({
    ...{ app, key, host: "127.0.0.1", port: 0, inform: () => undefined },
    ...{ engine: { kind: "embedded", serveOrigin: null }, warn: () => undefined },
  });
  return {
    ...{ url: `${server.origin}/mcp`, key, project: basename(app.config.dataDir) },
    async close() {
      await server.stop(0);
      await close();
    },
  };
}
