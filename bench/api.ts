import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { startServer } from "../src/server/server.ts";
import { withFolder } from "./database.ts";
import { storeFinishedBuild, storeWaitingBuild } from "./finished-build.ts";
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
        const [count, rounds] = smoke ? [20, 2] : [500, 100];
        const waiting = `${server.origin}/api/v1/builds/${await storeWaitingBuild(app, count)}`;
        const finished = `${server.origin}/api/v1/builds/${await storeFinishedBuild(app, count)}`;
        const figure = { unit: "ms", floor: null, limit: 15 } as const;
        return [
          { what: "GET /builds/:id, 500 tasks, median", ours: await medianOf(waiting, rounds), ...figure },
          { what: "the same after 50 waves, median", ours: await medianOf(finished, rounds), ...figure },
        ];
      } finally {
        await server.stop();
        await app.close();
      }
    }),
};

/** Returns the median time in ms until the whole answer is there. */
async function medianOf(url: string, rounds: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const begun = performance.now();
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`the server answered ${response.status}`);
    times.push(performance.now() - begun);
  }
  return median(times);
}
