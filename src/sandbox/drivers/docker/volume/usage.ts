import type { Socket } from "node:net";
import type { SandboxUsage } from "../../../port.ts";
import { StandardStreams } from "../engine/demux.ts";
import type { DockerEngine } from "../engine/engine-calls.ts";

/** The engine's statistics that we read; cgroup v1 and v2 name them differently. */
interface Statistics {
  readonly cpu_stats?: Cpu;
  readonly precpu_stats?: Cpu;
  readonly memory_stats?: { readonly usage?: number; readonly stats?: Readonly<Record<string, number>> };
  readonly pids_stats?: { readonly current?: number };
}

interface Cpu {
  readonly cpu_usage?: { readonly total_usage?: number };
  readonly system_cpu_usage?: number;
  readonly online_cpus?: number;
}

const diskLimitMs = 3_000;

/** Measures for about a second, because the engine looks twice. */
export async function containerUsage(
  engine: DockerEngine,
  containerId: string,
): Promise<Omit<SandboxUsage, "diskBytes">> {
  const found = (await engine.call("measure what a sandbox uses", (docker, limited) =>
    docker.getContainer(containerId).stats({ stream: false, ...limited }),
  )) as Statistics;
  return { cpus: cpusOf(found), memoryBytes: memoryOf(found), processes: found.pids_stats?.current ?? null };
}

function cpusOf({ cpu_stats: now, precpu_stats: before }: Statistics): number | null {
  const used = (now?.cpu_usage?.total_usage ?? Number.NaN) - (before?.cpu_usage?.total_usage ?? Number.NaN);
  const passed = (now?.system_cpu_usage ?? Number.NaN) - (before?.system_cpu_usage ?? Number.NaN);
  const cpus = (used / passed) * (now?.online_cpus ?? 1);
  return Number.isFinite(cpus) ? Math.max(0, cpus) : null;
}

/** Leaves out the memory that the kernel can reclaim at once. */
function memoryOf({ memory_stats: memory }: Statistics): number | null {
  if (memory?.usage === undefined) return null;
  const spare = memory.stats?.total_inactive_file ?? memory.stats?.inactive_file ?? 0;
  return Math.max(0, memory.usage - spare);
}

/**
 * Returns the size of a running sandbox's volume; null when counting takes longer. It does not ask
 * the guest, for which that would count as work.
 */
export const containerDiskBytes = (engine: DockerEngine, containerId: string): Promise<number | null> =>
  countBytes(engine, containerId, { limitMs: diskLimitMs, options: [] });

/**
 * Returns what the volume counts against its limit: its size on disk, or the sum of its files'
 * sizes where that is more; null when counting takes longer.
 */
export async function containerLimitedBytes(
  engine: DockerEngine,
  containerId: string,
  limitMs: number,
): Promise<number | null> {
  const ways = [[], ["--apparent-size"]];
  const counts = await Promise.all(ways.map((options) => countBytes(engine, containerId, { limitMs, options })));
  return counts.includes(null) ? null : Math.max(...counts.map(Number));
}

interface Counting {
  readonly limitMs: number;
  /** Further options of `du`. */
  readonly options: readonly string[];
}

async function countBytes(engine: DockerEngine, containerId: string, counting: Counting): Promise<number | null> {
  const { limitMs } = counting;
  const streams = await count(engine, containerId, counting);
  if (streams === null) return null;
  const late = setTimeout(() => streams.destroy(), 2 * limitMs);
  try {
    const kibibytes = Number.parseInt(await beginningOf(streams), 10);
    return Number.isNaN(kibibytes) ? null : kibibytes * 1024;
  } finally {
    clearTimeout(late);
    streams.destroy();
  }
}

/** The users and groups of `src/guest/isolation/users.ts`. */
const wavesmithUser = 10_001;
const cacheGroup = 10_002;

// Each user's folders are counted as that user, because no other user may read them. A file that
// two users link is counted twice. A folder that a user closed to itself, or in the cache to
// others, is opened first, once no process of that user runs: otherwise it would not count.
const countScript = `cd /workspace || exit
as() {
  user=$1
  shift
  setpriv --reuid="$user" --regid="$user" --groups=${cacheGroup} "$@" 2> /dev/null
}
rests() { ! pgrep -U "$1" > /dev/null; }
# Of the folders that are named on its input.
each_of() {
  user=$1
  shift
  as "$user" xargs -0 -r sh -c "$@"
}
open_own='find "$@" -xdev -type d ! \\( -readable -executable \\) -uid "$(id -u)" -exec chmod -R u+rwX {} +'
open_cache='chgrp -Rh ${cacheGroup} -- "$@"; chmod -R g+rwX -- "$@"'
closed() { as ${wavesmithUser} find cache -xdev -type d ! \\( -readable -executable \\) ! -uid 0 "$@"; }
closed -printf '%U\\n' | sort -u | while read -r user; do
  if rests "$user"; then closed -uid "$user" -print0 | each_of "$user" "$open_cache" sh; fi
done
{
  du "$@" -skx . 2> /dev/null
  find . -xdev ! -user 0 -prune -type d -printf '%U\\n' 2> /dev/null | sort -u | while read -r user; do
    folders() { find . -xdev ! -user 0 -prune -type d -user "$user" -print0 2> /dev/null; }
    if rests "$user"; then folders | each_of "$user" "$open_own" sh; fi
    folders | as "$user" du "$@" -skxc --files0-from=- | tail -n 1
  done
} | awk '{ sum += $1 } END { print sum }'`;

/** Returns null when the container is ending or has no room for another process. */
async function count(
  engine: DockerEngine,
  containerId: string,
  { limitMs, options: given }: Counting,
): Promise<StandardStreams | null> {
  const what = "measure a volume";
  const on = { 400: () => null, 404: () => null, 409: () => null, 500: () => null };
  const options = {
    Cmd: ["timeout", String(limitMs / 1000), "sh", "-c", countScript, "sh", ...given],
    AttachStdout: true,
    AttachStderr: true,
  };
  const exec = await engine.call(
    what,
    (docker, limited) => docker.getContainer(containerId).exec({ ...options, ...limited }),
    { on },
  );
  if (exec === null) return null;
  const start = { hijack: true, stdin: false };
  const socket = await engine.call(
    what,
    (_, limited) => exec.start({ ...start, ...limited } as Parameters<typeof exec.start>[0]),
    { on },
  );
  return socket === null ? null : new StandardStreams(socket as unknown as Socket);
}

async function beginningOf(streams: StandardStreams): Promise<string> {
  let text = "";
  try {
    for await (const chunk of streams) {
      text += (chunk as Buffer).toString("latin1");
      if (text.length > 100) break;
    }
  } catch {
    return ""; // Too slow, or the engine went away: the size is unknown.
  }
  return text;
}
