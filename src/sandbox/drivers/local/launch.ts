import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, closeSync, constants, copyFileSync, mkdirSync, openSync, realpathSync, symlinkSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { WavesmithError } from "../../../domain/errors.ts";
import type { ProjectId } from "../../../domain/ids.ts";
import type { NetworkMode } from "../../../domain/sandbox/network.ts";
import { sandboxPrograms } from "../../guest/guest-program.ts";
import { findProgram } from "../../host/programs.ts";
import { sandboxUser } from "../../host/users.ts";
import { hostPlatform, toolsFolder, toolsInside } from "../../tools/place.ts";
import { type OuterCommand, type OuterSandbox, outerCommand, outerCommandFor, showEtc } from "./bubblewrap.ts";
import { trustMachine } from "./certificates.ts";
import { recentTools, type Tools } from "./tool-roots.ts";

export interface LocalDriverOptions {
  /** Runs jobs as ordinary processes of this machine, without bubblewrap (`local-unsafe`). */
  readonly unsafe: boolean;
  readonly dataDir: string;
  readonly installationId: string;
  /** The setting `sandbox.readOnly`: folders of the host that sandboxes may read. */
  readonly readOnly: readonly string[];
  readonly env: { readonly PATH: string; readonly HOME: string };
  readonly logger?: { warn(message: string): void };
  /** How long a guest lives without a request (W9); the guest's own limit when absent. */
  readonly silenceMs?: number;
}

/** The paths of one project's sandbox on the host. */
export interface Places {
  readonly volume: string;
  /** The record, the log and the mounted files; the sandbox sees only `socket` of it. */
  readonly run: string;
  readonly socket: string;
  readonly log: string;
  /** Outside `run`, because it outlives the sandbox. */
  readonly lock: string;
}

export const socketName = "guest.sock";

export function placesOf(dataDir: string, projectId: ProjectId): Places {
  if (!/^[\w-]+$/.test(projectId)) throw new WavesmithError("internal", `${projectId} is not a project id`);
  const run = join(dataDir, "sandboxes", projectId);
  return {
    volume: volumeOf(dataDir, projectId),
    run,
    socket: join(run, "socket"),
    log: join(run, "guest.log"),
    lock: join(dataDir, "locks", `sandbox-${projectId}`),
  };
}

/**
 * Resolves links, because processes are found by this path; `volumes` may be a link to another
 * disk.
 */
function volumeOf(dataDir: string, projectId: ProjectId): string {
  const volumes = join(dataDir, "volumes");
  mkdirSync(volumes, { recursive: true, mode: 0o700 });
  return join(realpathSync(volumes), projectId);
}

/**
 * Returns arguments that only this sandbox's processes have on their command line. A copy of the
 * data directory gets other ones.
 */
export function markOf(options: LocalDriverOptions, projectId: ProjectId): string[] {
  const volume = volumeOf(options.dataDir, projectId);
  if (options.unsafe) return ["--root", volume];
  const place = createHash("sha256").update(volume).digest("hex").slice(0, 16);
  return ["--setenv", "WAVESMITH_SANDBOX", `${options.installationId}:${projectId}:${place}`];
}

export interface GuestLaunch {
  readonly options: LocalDriverOptions;
  readonly projectId: ProjectId;
  readonly places: Places;
  readonly network: NetworkMode;
  /** The folder with the sandbox's egress sockets; shown read-only. */
  readonly egress: string;
  /**
   * The guest's folder for temporary files if it has none of its own; short, because sockets are
   * made in it.
   */
  readonly temporary: string | null;
  /**
   * The guest's program as one file; copied to the run folder, where the sandbox's user may read
   * it.
   */
  readonly program: string;
}

/**
 * Starts the guest, which outlives us; resolves when its process exists. Its output goes to the
 * log.
 */
export async function launch(request: GuestLaunch): Promise<ChildProcess> {
  const { socket, log } = request.places;
  copyPrograms(dirname(request.program), dirname(guestFile(request.places)));
  closeSync(openSync(log, "w", 0o600));
  const output = openSync(log, "a");
  const folder = openSync(socket, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { program, args } = request.options.unsafe ? unsafeCommand(request) : sandboxCommand(request);
    const child = spawn(program, args, {
      cwd: "/",
      detached: true,
      env: request.options.unsafe ? unsafeEnvironment(request) : {},
      stdio: request.options.unsafe ? ["ignore", output, output, folder] : ["ignore", output, output],
    });
    await new Promise<void>((resolve, reject) => child.once("spawn", resolve).once("error", reject));
    child.unref();
    return child;
  } finally {
    closeSync(folder);
    closeSync(output);
  }
}

const guestFile = (places: Places): string => join(places.run, "programs", "guest.mjs");

function copyPrograms(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of Object.keys(sandboxPrograms)) {
    copyFileSync(join(from, `${name}.mjs`), join(to, `${name}.mjs`));
    chmodSync(join(to, `${name}.mjs`), 0o644);
  }
}

function unsafeCommand({ options, places, egress, temporary }: GuestLaunch): OuterCommand {
  // A socket's path is limited to about 100 bytes. Through an open folder or a link it is short at
  // any depth.
  const folder = process.platform === "linux" ? "/proc/self/fd/3" : places.socket;
  const way = temporary === null ? egress : join(temporary, "egress");
  if (temporary !== null) symlinkSync(egress, way);
  const guest = ["--root", places.volume, "--socket", `${folder}/${socketName}`, "--isolation", "sweep"];
  const path = [join(installedTools(options), "bin"), options.env.PATH].join(delimiter);
  const rest = ["--network", "open", "--egress", way, "--tool-path", path, ...silence(options)];
  return { program: process.execPath, args: [guestFile(places), ...guest, ...rest] };
}

const silence = ({ silenceMs }: LocalDriverOptions): string[] =>
  silenceMs === undefined ? [] : ["--silence-ms", String(silenceMs)];

function unsafeEnvironment({ options, temporary }: GuestLaunch): NodeJS.ProcessEnv {
  return { PATH: options.env.PATH, LANG: "C.UTF-8", ...(temporary === null ? {} : { TMPDIR: temporary }) };
}

function sandboxCommand({ options, projectId, places, network, egress }: GuestLaunch): OuterCommand {
  const tools = toolsFor(options);
  const guest = ["--root", "/workspace", "--socket", `/run/wavesmith/${socketName}`, "--isolation", "bubblewrap"];
  const visible = tools.shown.flatMap(({ target }) => ["--read-only", target]);
  const [, markName, mark] = markOf(options, projectId);
  const way = { source: egress, target: egressInside };
  // Agents installed later appear too.
  const installed = { source: installedTools(options), target: toolsInside };
  const trust = trustMachine(join(places.run, "certificates.pem"));
  return commandFor(options, {
    bwrap: requireProgram("bwrap", options),
    shown: [
      ...showEtc(join(places.run, "etc")),
      ...tools.shown,
      shownPrograms(guestFile(places)),
      way,
      installed,
      ...trust.shown,
    ],
    writable: [
      { source: places.socket, target: "/run/wavesmith" },
      { source: places.volume, target: "/workspace" },
    ],
    network,
    env: { PATH: tools.path, [markName!]: mark!, ...trust.env },
    cwd: "/workspace",
    command: [
      ...guestInside(),
      ...guest,
      "--network",
      network,
      "--egress",
      egressInside,
      "--tool-path",
      `${toolsInside}/bin:${tools.path}`,
      ...visible,
      ...silence(options),
    ],
  });
}

/**
 * Returns the folder of agents installed for this machine; `tools` in the data directory may be a
 * link.
 */
const installedTools = ({ dataDir }: LocalDriverOptions): string => realpathSync(toolsFolder(dataDir, hostPlatform()));

const egressInside = "/run/wavesmith-egress";
const programsInside = "/opt/wavesmith";

/** Mounts the folder with the programs of the guest and the agents. */
export const shownPrograms = (guest: string) => ({ source: dirname(guest), target: programsInside });

/** The command that runs the guest's program with our own node. */
export const guestInside = (): string[] => [realpathSync(process.execPath), `${programsInside}/guest.mjs`];

export function toolsFor(options: LocalDriverOptions): Tools {
  const { env, readOnly, dataDir } = options;
  return recentTools({ ...env, readOnly, dataDir: realpathSync(dataDir), execPath: process.execPath });
}

/** Returns the command that starts a sandbox as the user it belongs to. */
export function commandFor(options: LocalDriverOptions, sandbox: OuterSandbox): OuterCommand {
  const user = sandboxUser(options.dataDir);
  if (user === null) return outerCommand(sandbox);
  const command = outerCommandFor(user, sandbox);
  return { ...command, program: requireProgram(command.program, options) };
}

export function requireProgram(name: string, { env }: LocalDriverOptions): string {
  const found = findProgram(name, env.PATH);
  if (found !== null) return found;
  throw new WavesmithError("environment", `the sandbox driver local needs ${name}, which is not on PATH`, {
    remedy: "install it, or use --sandbox local-unsafe",
  });
}
