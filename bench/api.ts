import { randomBytes } from "node:crypto";
import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { requestBuild } from "../src/coordinator/build/request/request-build.ts";
import { startServer } from "../src/server/server.ts";
import { withFolder } from "./database.ts";
import { median } from "./measure.ts";
import type { Benchmark } from "./target.ts";

const key = "bench";

/** How long the API takes to show a build of 500 tasks. */
export const api: Benchmark = {
  name: "api",
  about: "GET /builds/:id of a build of 500 tasks",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const config = loadConfig({ PATH: process.env.PATH, WAVESMITH_DATA: dataDir });
      const app = await createApp({ config, warn: () => undefined });
      const silent = () => undefined;
      const options = {
        app,
        engine: { kind: "embedded", serveOrigin: null } as const,
        key,
        host: "127.0.0.1",
        port: 0,
      };
      const server = await startServer({ ...options, inform: silent, warn: silent });
      try {
        const tasks = Array.from({ length: smoke ? 5 : 500 }, (_, at) => ({ id: `t${at}`, run: "true" }));
        const data = { project: "bench", plan: { name: "bench", tasks } };
        const event = { id: `bench-${randomBytes(4).toString("hex")}`, data };
        const { buildId } = await requestBuild(app.ports, event, config.sandboxDriver);
        const times: number[] = [];
        for (let round = 0; round < (smoke ? 2 : 100); round += 1) {
          const begun = performance.now();
          const headers = { authorization: `Bearer ${key}` };
          const response = await fetch(`${server.origin}/api/v1/builds/${buildId}`, { headers });
          await response.arrayBuffer();
          if (response.status !== 200) throw new Error(`the server answered ${response.status}`);
          times.push(performance.now() - begun);
        }
        return [
          { what: "GET /builds/:id, 500 tasks, median", ours: median(times), unit: "ms", floor: null, limit: 15 },
        ];
      } finally {
        await server.stop();
        await app.close();
      }
    }),
};
