import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { ProjectId } from "../../../domain/ids.ts";
import { itemAt, present } from "../../../domain/known.ts";
import type { SandboxUsage } from "../../port.ts";
import { processesOf } from "./guest-process.ts";
import { type LocalDriverOptions, placesOf } from "./launch.ts";
import { isRecordRunning, readRecord } from "./record.ts";
import { folderDiskBytes } from "./volume.ts";

interface TreeUsage {
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly processes: number;
}

const sampleMs = 1_000;
/** Linux counts processor time for programs in these units on every machine. */
const ticksPerSecond = 100;

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** Tells a reused process id apart. */
  readonly start: string;
  readonly ticks: number;
}

/** Measures a project's sandbox for about a second; null when it does not run. */
export async function localUsage(options: LocalDriverOptions, projectId: ProjectId): Promise<SandboxUsage | null> {
  const places = placesOf(options.dataDir, projectId);
  const record = readRecord(places.run);
  if (record === null || record.installationId !== options.installationId || !isRecordRunning(record)) return null;
  const [tree, disk] = await Promise.all([
    usageOfTrees(() => [present(record.pid, "its process id"), ...processesOf(options, places, record)]),
    folderDiskBytes(places.volume),
  ]);
  return isRecordRunning(record) ? { cpus: null, memoryBytes: null, processes: null, ...tree, diskBytes: disk } : null;
}

/** Measures these processes and their descendants; null when none run or it is not Linux. */
async function usageOfTrees(roots: () => readonly number[]): Promise<TreeUsage | null> {
  if (process.platform !== "linux") return null;
  const before = new Map(treesOf(roots()).map((one) => [`${one.pid} ${one.start}`, one.ticks]));
  const startMs = performance.now();
  await delay(sampleMs);
  const after = treesOf(roots());
  if (after.length === 0) return null;
  const seconds = (performance.now() - startMs) / 1000;
  const ticks = after.map(({ pid, start, ticks: now }) => now - (before.get(`${pid} ${start}`) ?? 0));
  return {
    cpus: Math.max(0, sum(ticks) / ticksPerSecond / seconds),
    memoryBytes: sum(after.map(({ pid }) => memoryOf(pid))),
    processes: after.length,
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

function treesOf(roots: readonly number[]): Process[] {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap(readProcess);
  const wanted = new Set(roots);
  // Children may come before their parents, so repeat until nothing is added.
  for (let size = -1; size !== wanted.size; ) {
    size = wanted.size;
    for (const { pid, parent } of all) if (wanted.has(parent)) wanted.add(pid);
  }
  return all.filter(({ pid }) => wanted.has(pid));
}

function readProcess(name: string): Process[] {
  const stat = textOf(`/proc/${name}/stat`);
  // The command's name is in brackets and may hold anything, including spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (fields.length < 20) return [];
  return [
    {
      pid: Number(name),
      parent: Number(fields[1]),
      start: itemAt(fields, 19),
      ticks: Number(fields[11]) + Number(fields[12]),
    },
  ];
}

/** Returns the memory that only this process holds; shared programs and libraries are left out. */
function memoryOf(pid: number): number {
  const found = textOf(`/proc/${pid}/status`).matchAll(/^Rss(?:Anon|Shmem):\s*(\d+) kB$/gm);
  return sum([...found].map(([, kibibytes]) => Number(kibibytes) * 1024));
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // It ended meanwhile.
  }
}
