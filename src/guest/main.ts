// The guest: the small server inside every sandbox. It also holds the programs `pack` and `unpack`,
// which turn a volume into an archive and back (pack.ts, unpack.ts), and `files` (file-worker.ts).
// The server is started as
//   node guest.mjs --root VOLUME --socket PATH --isolation bubblewrap|users|sweep --tool-path PATH
//     [--mux-socket PATH]       also listens there for muxed connections (mux.ts)
//     [--contained]             sweep only: the guest has its pid namespace to itself
//     [--network none|allowlist|open] [--egress DIR]   the way out (egress.ts); default open
//     [--read-only DIR]...      bubblewrap only: folders with tools that stay visible
//     [--silence-ms N]
// Once it listens, it prints one line of JSON, {"ready":true,...}. It ends on SIGTERM, on POST
// /v1/shutdown and after a long silence. If it cannot start, it exits with code 1 and the reason on
// stderr.
import { randomBytes } from "node:crypto";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import { access, constants, readdir, realpath, rm } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { packArchive } from "./archive/pack.ts";
import { unpackArchive } from "./archive/unpack.ts";
import { type ContactLog, createContact } from "./channel/contact.ts";
import { type MuxServer, serveMux } from "./channel/mux-server.ts";
import { createGuestServer, listenOn } from "./channel/server.ts";
import { messageOf } from "./faults.ts";
import { openVolume, type Volume } from "./files/confined-volume.ts";
import { serveFiles } from "./files/file-worker.ts";
import { createFiles, type Files, incomingPrefix } from "./files/files.ts";
import { createHeldFiles, type FileWorker, startFileWorker } from "./files/held-files.ts";
import { createBubblewrap } from "./isolation/bubblewrap.ts";
import { openEgress, trustEnvironment } from "./isolation/egress.ts";
import { type Holders, openHolders } from "./isolation/holders.ts";
import type { Isolation } from "./isolation/isolation.ts";
import { createLoopbacks, type Door, serveLoopback } from "./isolation/loopback.ts";
import { createMemoryWatch } from "./isolation/out-of-memory.ts";
import { setOwner } from "./isolation/ownership.ts";
import { createReaper, type Reaper } from "./isolation/reaper.ts";
import { createSweep } from "./isolation/sweep.ts";
import { createUsersIsolation } from "./isolation/users-isolation.ts";
import { ownGraceMs } from "./jobs/job.ts";
import { type Jobs, openJobs } from "./jobs/jobs.ts";
import { createPipes } from "./jobs/pipes.ts";
import { createPortSource } from "./jobs/ports.ts";
import { commandOwner, type GuestParts, openScratchSpace, ownerOf } from "./parts.ts";
import { type GuestHealth, guestProtocolVersion } from "./protocol.ts";
import { readSettings, type Settings } from "./settings.ts";

async function serve(args: readonly string[]): Promise<void> {
  const settings = readSettings(args);
  const egress = settings.egress === null ? null : await openEgress(settings.egress, settings.network);
  // In a container, programs trust the certificates that the container trusts; elsewhere they get
  // only what they are given.
  const trust = egress === null && !settings.contained ? {} : trustEnvironment(process.env);
  // The agents' programs lie in the same folder as this one.
  const programs = { WAVESMITH_PROGRAMS: dirname(fileURLToPath(import.meta.url)) };
  const { parts, files, close } = await assemble(
    settings,
    { ...programs, ...trust, ...egress?.env },
    egress?.doors ?? [],
  );
  const jobs = await openJobs(parts);
  const contact = createContact();
  const bootId = randomBytes(12).toString("hex");
  const startedAt = new Date().toISOString();
  const health = (): GuestHealth => ({
    protocol: guestProtocolVersion,
    pid: process.pid,
    bootId,
    startedAt,
    isolation: settings.isolation,
    workspaceRoot: parts.volume.root,
    activeJobs: jobs.activeCount(),
    idleMs: jobs.activeCount() > 0 ? 0 : Math.floor(Math.min(contact.idleMs(), performance.now() - jobs.lastEndedAt())),
    egress: egress?.state() ?? null,
  });
  const shutdown = once(() => {
    egress?.close();
    shutDown(parts, jobs, { server, mux })
      .finally(close)
      .then(() => process.exit(0), exitWithError);
  });
  const context = { parts, files, jobs, ports: createPortSource(), health, shutdown };
  const server = createGuestServer({ context, contact });
  await listenOn(server, settings.socket);
  const mux = settings.muxSocket === null ? null : await serveMux(server, settings.muxSocket);
  // After listening, because the socket's path may lead through a folder that is open as an
  // inherited descriptor.
  closeInheritedDescriptors();
  for (const name of ["SIGTERM", "SIGINT"] as const) process.on(name, shutdown);
  process.on("SIGHUP", () => undefined); // A closing terminal must not end the guest.
  endAfterSilence(contact, settings.silenceMs, shutdown);
  process.stdout.write(
    `${JSON.stringify({ ready: true, protocol: guestProtocolVersion, pid: process.pid, bootId })}\n`,
  );
}

interface Assembled {
  readonly parts: GuestParts;
  readonly files: Files;
  close(): void;
}

async function assemble(
  settings: Settings,
  env: Readonly<Record<string, string>>,
  doors: readonly Door[],
): Promise<Assembled> {
  const walls = settings.isolation === "users" ? await openWalls(settings) : null;
  const volume = await openVolume(settings.root);
  for (const name of await readdir(volume.own)) {
    if (name.startsWith(incomingPrefix)) await rm(join(volume.own, name), { force: true });
  }
  const socketFolder = await realpath(dirname(resolve(settings.socket)));
  const scratch = await openScratchSpace(volume, settings.isolation);
  const holders = walls?.holders ?? null;
  const parts = {
    volume,
    isolation: await chooseIsolation(settings, { volume, socketFolder, env, walls }),
    holders,
    loopbacks: await chooseLoopbacks(settings, doors),
    pipes: createPipes(scratch.folder, settings.toolPath),
    scratch,
    memory: createMemoryWatch(),
    now: () => new Date(),
  };
  const files = walls === null ? createFiles(volume) : createHeldFiles(volume, walls.holders, walls.worker);
  return { parts, files, close: () => walls?.close() };
}

/** The parts that separate the users of jobs. */
interface Walls {
  readonly holders: Holders;
  readonly worker: FileWorker;
  readonly reaper: Reaper;
  close(): void;
}

async function openWalls({ root, toolPath }: Settings): Promise<Walls> {
  if (process.getuid?.() !== 0) throw new Error("--isolation users needs root, with SETUID, SETGID and CHOWN alone");
  process.umask(0o077);
  const volume = await openOwnVolume(root);
  const worker = startFileWorker(volume.root, (reason) => exitWithError(new Error(reason)));
  const reaper = createReaper(toolPath);
  const holders = await openHolders({ volume, worker, reaper });
  const close = (): void => {
    worker.close();
    reaper.close();
  };
  return { holders, worker, reaper, close };
}

/**
 * Opens the volume after giving its root to root: a restored volume, or one of an earlier version,
 * belongs to another user.
 */
async function openOwnVolume(root: string): Promise<Volume> {
  setOwner(await realpath(root), { uid: 0, gid: 0, mode: 0o711 });
  return openVolume(root);
}

interface Surroundings {
  readonly volume: Volume;
  readonly socketFolder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly walls: Walls | null;
}

async function chooseIsolation(
  settings: Settings,
  { volume, socketFolder, env, walls }: Surroundings,
): Promise<Isolation> {
  const { toolPath, contained } = settings;
  if (walls !== null)
    return createUsersIsolation({ root: volume.root, toolPath, env, users: walls.holders.users, reaper: walls.reaper });
  if (settings.isolation === "sweep") return createSweep({ root: volume.root, toolPath, env, contained });
  const bwrap = await findProgram("bwrap", [toolPath, systemPath].join(delimiter));
  const { root, own } = volume;
  return createBubblewrap({ bwrap, root, own, hidden: [socketFolder], tools: settings.readOnly, toolPath, env });
}

/** Creates the jobs' loopbacks. With `open`, jobs use the machine's network, loopback included. */
async function chooseLoopbacks({ isolation, network, toolPath }: Settings, doors: readonly Door[]) {
  if (isolation !== "bubblewrap" || network === "open") return null;
  const [bwrap, nsenter, cat] = await Promise.all(
    ["bwrap", "nsenter", "cat"].map((name) => findProgram(name, [toolPath, systemPath].join(delimiter))),
  );
  return createLoopbacks({ bwrap: bwrap!, nsenter: nsenter!, cat: cat! }, doors);
}

const systemPath = "/usr/local/bin:/usr/bin:/bin";

async function findProgram(name: string, path: string): Promise<string> {
  for (const folder of path.split(delimiter).filter((part) => part.startsWith("/"))) {
    const candidate = join(folder, name);
    const isExecutable = await access(candidate, constants.X_OK).then(
      () => true,
      () => false, // It is not in this folder: try the next one.
    );
    if (isExecutable) return candidate;
  }
  throw new Error(`there is no ${name} in ${path}`);
}

function endAfterSilence(contact: ContactLog, silenceMs: number, shutdown: () => void): void {
  const check = (): void => {
    if (contact.silentMs() >= silenceMs) shutdown();
  };
  setInterval(check, Math.max(10, Math.min(silenceMs / 4, 30_000))).unref();
}

/** Ends every job, lets pending requests finish, and closes everything. */
async function shutDown(
  parts: GuestParts,
  jobs: Jobs,
  { server, mux }: { server: ReturnType<typeof createGuestServer>; mux: MuxServer | null },
): Promise<void> {
  await jobs.endAll(ownGraceMs);
  server.close();
  mux?.close();
  await delay(100);
  server.closeAllConnections();
  mux?.closeAll();
  // Commands ended with their connections; this catches leftovers where no namespace does.
  await parts.isolation.endLeftovers(ownerOf(parts.volume, commandOwner));
  parts.loopbacks?.close();
  await parts.scratch.remove();
}

/**
 * Closes descriptors inherited from the parent, which would be open in every job. Node marks its
 * own as close-on-exec.
 */
function closeInheritedDescriptors(): void {
  if (process.platform !== "linux") return;
  for (const name of readdirSync("/proc/self/fd")) {
    const fd = Number(name);
    if (fd > 2 && isInheritable(fd)) closeSync(fd);
  }
}

function isInheritable(fd: number): boolean {
  const closeOnExec = 0o2000000;
  try {
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    return false; // The descriptor used to read the folder is closed again.
  }
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    act();
  };
}

const runLoopback = async (): Promise<void> => serveLoopback();

function exitWithError(error: unknown): void {
  process.stderr.write(`guest: ${messageOf(error)}\n`, () => process.exit(1));
}

// The process that started the guest may be gone, so write errors are ignored.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
const [program = "", ...rest] = process.argv.slice(2);
const programs: Readonly<Record<string, (args: readonly string[]) => Promise<void>>> = {
  pack: (args) => packArchive(args, process.env),
  unpack: unpackArchive,
  files: serveFiles,
  loopback: runLoopback,
};
const begun = programs[program]?.(rest) ?? serve(process.argv.slice(2));
begun.catch(exitWithError);
