// The guest: the small server inside every sandbox. Started as
//   node guest.mjs --root VOLUME --socket PATH --isolation bubblewrap|sweep --tool-path PATH [--read-only DIR]... [--silence-ms N]
// it prints one line of JSON, {"ready":true,...}, once it listens, and ends on SIGTERM, on POST /v1/shutdown and after a
// long silence. Whatever of it cannot start ends it with exit code 1 and the reason on stderr.
import { randomBytes } from "node:crypto";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import { access, constants, readdir, realpath, rm } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createBubblewrap } from "./bubblewrap.ts";
import { messageOf } from "./faults.ts";
import { createFiles, incomingPrefix } from "./files.ts";
import type { Isolation } from "./isolation.ts";
import { ownGraceMs } from "./job.ts";
import { type Jobs, openJobs } from "./jobs.ts";
import { commandOwner, type GuestParts, openScratchSpace, ownerOf } from "./parts.ts";
import { createPipes } from "./pipes.ts";
import { createPorts } from "./ports.ts";
import { type GuestHealth, guestProtocolVersion, guestSilenceLimitMs } from "./protocol.ts";
import { createGuestServer, listenOn } from "./server.ts";
import { createSweep } from "./sweep.ts";
import { openVolume, type Volume } from "./volume.ts";

interface Settings {
  readonly root: string;
  readonly socket: string;
  readonly isolation: "bubblewrap" | "sweep";
  readonly toolPath: string;
  readonly readOnly: readonly string[];
  readonly silenceMs: number;
}

/** When somebody last spoke to the guest, and when the last of it was more than a heartbeat. */
interface Contact {
  spokenAt: number;
  workedAt: number;
}

async function main(): Promise<void> {
  // Whoever started the guest may be gone; it has nothing more to say to them.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  const settings = readSettings();
  const parts = await assemble(settings);
  const jobs = await openJobs(parts);
  const contact: Contact = { spokenAt: Date.now(), workedAt: Date.now() };
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
    idleMs: jobs.activeCount() > 0 ? 0 : Math.max(0, Date.now() - Math.max(contact.workedAt, jobs.lastEndedAt())),
  });
  const shutdown = once(() => {
    end(parts, jobs, server).then(() => process.exit(0), fail);
  });
  const context = { parts, files: createFiles(parts.volume), jobs, ports: createPorts(), health, shutdown };
  const server = createGuestServer({
    context,
    onContact: ({ isHealth }) => {
      contact.spokenAt = Date.now();
      if (!isHealth) contact.workedAt = contact.spokenAt;
    },
  });
  await listenOn(server, settings.socket);
  // After listening, because the socket's path may lead through a folder that is open as one of them.
  closeInheritedDescriptors();
  for (const name of ["SIGTERM", "SIGINT"] as const) process.on(name, shutdown);
  process.on("SIGHUP", () => undefined); // A terminal that closes is no reason to end.
  endAfterSilence(contact, settings.silenceMs, shutdown);
  process.stdout.write(
    `${JSON.stringify({ ready: true, protocol: guestProtocolVersion, pid: process.pid, bootId })}\n`,
  );
}

function readSettings(): Settings {
  const { values } = parseArgs({
    options: {
      root: { type: "string" },
      socket: { type: "string" },
      isolation: { type: "string" },
      "tool-path": { type: "string" },
      "read-only": { type: "string", multiple: true },
      "silence-ms": { type: "string" },
    },
  });
  const { root, socket, isolation } = values;
  const toolPath = values["tool-path"];
  const silenceMs = Number(values["silence-ms"] ?? guestSilenceLimitMs);
  if (root === undefined || socket === undefined || toolPath === undefined)
    throw new Error("--root, --socket and --tool-path are needed");
  if (isolation !== "bubblewrap" && isolation !== "sweep") throw new Error("--isolation must be bubblewrap or sweep");
  if (!(silenceMs > 0)) throw new Error("--silence-ms must be a number above 0");
  return { root, socket, isolation, toolPath, readOnly: values["read-only"] ?? [], silenceMs };
}

async function assemble(settings: Settings): Promise<GuestParts> {
  const volume = await openVolume(settings.root);
  for (const name of await readdir(volume.own)) {
    if (name.startsWith(incomingPrefix)) await rm(join(volume.own, name), { force: true });
  }
  const socketFolder = await realpath(dirname(resolve(settings.socket)));
  const scratch = await openScratchSpace(volume, settings.isolation);
  return {
    volume,
    isolation: await chooseIsolation(settings, volume, socketFolder),
    pipes: createPipes(scratch.folder, settings.toolPath),
    scratch,
    now: () => new Date(),
  };
}

async function chooseIsolation(settings: Settings, volume: Volume, socketFolder: string): Promise<Isolation> {
  const { toolPath } = settings;
  if (settings.isolation === "sweep") return createSweep({ root: volume.root, toolPath });
  const bwrap = await findProgram("bwrap", [toolPath, "/usr/local/bin", "/usr/bin", "/bin"].join(delimiter));
  const { root, own } = volume;
  return createBubblewrap({ bwrap, root, own, hidden: [socketFolder], tools: settings.readOnly, toolPath });
}

async function findProgram(name: string, path: string): Promise<string> {
  for (const folder of path.split(delimiter).filter((part) => part.startsWith("/"))) {
    const place = join(folder, name);
    const isThere = await access(place, constants.X_OK).then(
      () => true,
      () => false, // Not in this folder: the next one is tried.
    );
    if (isThere) return place;
  }
  throw new Error(`there is no ${name} in ${path}`);
}

function endAfterSilence(contact: Contact, silenceMs: number, shutdown: () => void): void {
  const check = (): void => {
    if (Date.now() - contact.spokenAt >= silenceMs) shutdown();
  };
  setInterval(check, Math.max(10, Math.min(silenceMs / 4, 30_000))).unref();
}

/** Ends every job, answers who still waits, and goes. */
async function end(parts: GuestParts, jobs: Jobs, server: ReturnType<typeof createGuestServer>): Promise<void> {
  await jobs.endAll(ownGraceMs);
  server.close();
  await new Promise((done) => setTimeout(done, 100));
  server.closeAllConnections();
  // Commands ended with their connections; this sees to it where no namespace does.
  await parts.isolation.endLeftovers(ownerOf(parts.volume, commandOwner));
  await parts.scratch.remove();
}

/** Descriptors that leaked from whoever started us would be open in every job. Node marks its own as close-on-exec. */
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
    return false; // The descriptor by which the folder was read is closed again.
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

function fail(error: unknown): void {
  process.stderr.write(`guest: ${messageOf(error)}\n`, () => process.exit(1));
}

main().catch(fail);
