import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type App, createApp } from "../src/app.ts";
import { loadConfig } from "../src/config.ts";
import { eventsOf } from "../src/coordinator/build-events.ts";
import { keyOfDirectory } from "../src/server/server-key.ts";
import { withFolder } from "./database.ts";
import type { Benchmark, Finding } from "./target.ts";

const bin = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));
const clients = fileURLToPath(new URL("./followers-process.ts", import.meta.url));
/** Agents' reports are stored with the output they are in, so several of them in one commit. */
const eventsAtOnce = 5;
const everyMs = 10;

/** How soon many followers of one build see its events, written by another process. */
export const followers: Benchmark = {
  name: "followers",
  about: "200 followers of a build of 500 events a second: delay, events lost, memory",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const words = ["serve", "--port", "0", "--json", "--data", dataDir];
      const server = spawn(process.execPath, [bin, ...words], { stdio: ["ignore", "pipe", "inherit"] });
      const warn = (message: string) => process.stderr.write(`${message}\n`);
      try {
        const port = await portOf(server);
        const app = await createApp({ config: loadConfig({ PATH: process.env.PATH, WAVESMITH_DATA: dataDir }), warn });
        try {
          const key = (await keyOfDirectory(dataDir)) ?? "";
          const buildId = await builtOnce(app, `http://127.0.0.1:${port}/api/v1`, key);
          return await measure(app, { buildId, server, port, key, smoke });
        } finally {
          await app.close();
        }
      } finally {
        server.kill("SIGTERM");
        await once(server, "exit");
      }
    }),
};

async function portOf(server: ChildProcess): Promise<string> {
  for await (const line of createInterface(server.stdout!)) {
    const port = /"url":"http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error("the server did not start");
}

/** Runs a tiny build, whose events are then followed. */
async function builtOnce(app: App, api: string, key: string): Promise<string> {
  const ask = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(`${api}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return (await response.json()) as { id: string };
  };
  const { id: project } = await ask("/projects", { name: "bench" });
  const gates = { testing: false, critic: false, integration: false };
  const plan = { name: "bench", gates, tasks: [{ id: "only", run: "echo a > a" }] };
  const { id: buildId } = await ask(`/projects/${project}/builds`, { plan });
  for (;;) {
    const { endedAt } = await app.store.builds.get({ id: buildId });
    if (endedAt !== null) return buildId;
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

interface Measured {
  readonly buildId: string;
  readonly server: ChildProcess;
  readonly port: string;
  readonly key: string;
  readonly smoke: boolean;
}

interface Seen {
  readonly fault: string | null;
  /** How many events came out of order, twice or not at all. */
  readonly wrong: number;
  readonly seenAt: readonly number[];
  readonly cpuMs: number;
}

async function measure(app: App, { buildId, server, port, key, smoke }: Measured): Promise<Finding[]> {
  const count = smoke ? 10 : 200;
  const events = smoke ? 100 : 10_000;
  const last = (await app.store.outbox.list({ buildId }, { by: "seq", descending: true, limit: 1 }))[0]!;
  const path = `/api/v1/builds/${buildId}/events?after=${last.seq}`;
  const child = spawn(process.execPath, ["--import", "tsx", clients, port, path, key, `${count}`, `${events}`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    await lines.next();
    const cpuBefore = processorMs(server.pid!);
    const writtenAt = await writeEvents(app, buildId, events);
    const seen = JSON.parse((await lines.next()).value as string) as Seen;
    if (seen.fault !== null) throw new Error(seen.fault);
    const cpuMs = processorMs(server.pid!) - cpuBefore;
    const seconds = (seen.seenAt.at(-1)! - writtenAt[0]!) / 1_000;
    const delays = writtenAt.map((at, index) => seen.seenAt[index]! - at).sort((a, b) => a - b);
    const share = (ms: number) => ms / seconds / 10;
    const figure = { floor: null, limit: null } as const;
    return [
      {
        what: `until ${count} followers saw an event, p99`,
        ours: at(delays, 0.99),
        unit: "ms",
        floor: null,
        limit: 250,
      },
      { what: "the same, median", ours: at(delays, 0.5), unit: "ms", ...figure },
      { what: "events lost or repeated", ours: seen.wrong, unit: "updates", floor: null, limit: 0 },
      { what: "events written a second", ours: events / seconds, unit: "updates", ...figure },
      { what: "peak memory of the server", ours: peakMemoryOf(server.pid!), unit: "MB", floor: null, limit: 200 },
      { what: "processor time of the server", ours: share(cpuMs), unit: "%", ...figure },
      { what: "processor time of the followers", ours: share(seen.cpuMs), unit: "%", ...figure },
    ];
  } finally {
    child.kill("SIGKILL");
  }
}

/** Writes events at a steady pace; returns when each one's transaction began. */
async function writeEvents(app: App, buildId: string, count: number): Promise<number[]> {
  const { store } = app;
  const build = await store.builds.get({ id: buildId });
  const writtenAt: number[] = [];
  const begun = performance.now();
  while (writtenAt.length < count) {
    const dueAt = begun + (writtenAt.length / eventsAtOnce) * everyMs;
    const earlyMs = dueAt - performance.now();
    if (earlyMs > 0) await new Promise((wake) => setTimeout(wake, earlyMs));
    const at = performance.timeOrigin + performance.now();
    await store.transaction("bench", async (transaction) => {
      const report = eventsOf(transaction, build).activity;
      for (let index = 0; index < eventsAtOnce; index += 1) {
        const activity = {
          kind: "message",
          text: `What an agent says in a line of its output, ${writtenAt.length}`,
        } as const;
        await report("bench", writtenAt.length, { role: "backend", waveNumber: 1, taskKey: "only", activity });
        writtenAt.push(at);
      }
    });
  }
  return writtenAt;
}

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;

/** User and system time of a process, in ms. */
function processorMs(pid: number): number {
  const fields = readFileSync(join("/proc", `${pid}`, "stat"), "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function peakMemoryOf(pid: number): number {
  const text = readFileSync(join("/proc", `${pid}`, "status"), "utf8");
  return (Number(/^VmHWM:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024) / 1e6;
}
