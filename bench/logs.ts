import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { projectIdFor } from "../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../src/domain/events/request-ids.ts";
import { withFolder } from "./database.ts";
import type { Benchmark } from "./target.ts";

const agents = 10;
const linesAtOnce = 500;
const everyMs = 100;

/** Prints 5,000 lines a second. */
const printer = (rounds: number): string =>
  `node -e 'let n=0;const t=setInterval(()=>{let s="";for(let i=0;i<${linesAtOnce};i++)s+="line "+(n*${linesAtOnce}+i)+" of an agent that prints a lot\\n";process.stdout.write(s);if(++n===${rounds})clearInterval(t)},${everyMs})'`;

/** Whether the output of ten agents that print 50,000 lines a second together is stored whole. */
export const logs: Benchmark = {
  name: "logs",
  about: "10 agents printing 50,000 lines a second: stored, lost, and how long after",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const rounds = smoke ? 5 : 100;
      const config = loadConfig({ PATH: process.env.PATH, WAVESMITH_DATA: dataDir });
      const app = await createApp({ config, warn: () => undefined });
      const projectId = projectIdFor("default", "bench");
      try {
        await app.start(new Set([projectId]));
        const run = `${printer(rounds)}; echo done > $(basename $PWD)`;
        const tasks = Array.from({ length: agents }, (_, at) => ({ id: `t${at}`, run, agent: `a${at % 4}` }));
        const roles = Object.fromEntries([0, 1, 2, 3].map((at) => [`a${at}`, { runtime: "command", command: "true" }]));
        const gates = { testing: false, critic: false, integration: false };
        const plan = { name: "bench", agents: roles, limits: { maxParallelTasks: agents }, gates, tasks };
        const id = "project/build.requested:logs:0";
        await app.send({ name: "project/build.requested", id, data: { projectId, project: "bench", plan } });
        const buildId = buildIdForEvent(id);
        for (;;) {
          const build = await app.store.builds.find({ id: buildId });
          if (build !== null && build.endedAt !== null) break;
          await new Promise((wake) => setTimeout(wake, 100));
        }
        const chunks = await app.store.logChunks.list({}, { by: "at" });
        const stored = chunks.reduce((sum, { text }) => sum + (text.match(/^line \d+ of/gm)?.length ?? 0), 0);
        const [first, last] = [chunks[0]?.at.getTime() ?? 0, chunks.at(-1)?.at.getTime() ?? 0];
        const lost = agents * rounds * linesAtOnce - stored;
        return [
          { what: "lines of output lost", ours: lost, unit: "updates", floor: null, limit: 0 },
          {
            what: "lines stored a second, with the starts of the agents",
            ours: (stored / Math.max(1, last - first)) * 1_000,
            ...{ unit: "updates", floor: null, limit: null },
          },
        ];
      } finally {
        await app.ports.driver(config.sandboxDriver).remove(projectId, { volume: true });
        await app.close();
      }
    }),
};
