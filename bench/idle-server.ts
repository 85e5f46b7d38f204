import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withFolder } from "./database.ts";
import type { Benchmark } from "./target.ts";

const bin = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));

/** The memory of an idle server together with its database. Linux only. */
export const idleServer: Benchmark = {
  name: "idle-server",
  about: "memory of an idle `serve` and its Postgres",
  run: ({ smoke }) =>
    withFolder(async (dataDir) => {
      const words = [bin, "serve", "--port", "0", "--json", "--data", dataDir];
      const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
      try {
        for await (const chunk of child.stdout) if (String(chunk).includes("serve.started")) break;
        await new Promise((wake) => setTimeout(wake, smoke ? 500 : 30_000));
        const postmaster = Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
        const postgres = [postmaster, ...childrenOf(postmaster)];
        const ours = memoryOf(child.pid!);
        const database = postgres.reduce((sum, pid) => sum + memoryOf(pid), 0);
        return [
          { what: "an idle server with its database", ours: ours + database, unit: "MB", floor: null, limit: 150 },
          { what: "of that, the server", ours, unit: "MB", floor: null, limit: null },
        ];
      } finally {
        child.kill("SIGTERM");
        await once(child, "exit");
      }
    }),
};

const childrenOf = (parent: number): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === parent);

function parentOf(pid: number): number | null {
  try {
    return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    return null; // it has ended meanwhile
  }
}

/** The proportional set size in MB: shared memory counts in equal parts. */
function memoryOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return (Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024) / 1e6;
}
