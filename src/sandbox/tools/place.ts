// Where installed agents are on the host, and what sandboxes see of them.
//
//   <data directory>/tools/<platform>/bin/<program>                    a link into the folder of the version in use
//   <data directory>/tools/<platform>/agents/<name>/<version>-<pin>/   what npm made of one pin, never changed again
//
// TP1. The link decides: it is swapped in one step, when everything behind it is complete.
// TP2. The folder of a platform is made once and stays, because running sandboxes have it mounted.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { pinnedAgents, programOf } from "./table.ts";

/** Where a sandbox sees the tools; its `bin` is on PATH. */
export const toolsInside = "/opt/wavesmith-tools";

/** The system and processor of programs, in npm's terms. */
export interface Platform {
  readonly os: string;
  readonly cpu: string;
  readonly libc: "glibc" | "musl" | null;
}

let host: Platform | null = null;

/** Returns this machine's platform. */
export function hostPlatform(): Platform {
  const { platform: os, arch: cpu } = process;
  host ??= { os, cpu, libc: os === "linux" ? hostLibc() : null };
  return host;
}

function hostLibc(): "glibc" | "musl" {
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  report.excludeNetwork = true; // Otherwise it looks up the name of every address.
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime === undefined ? "musl" : "glibc";
}

/**
 * Returns the platform of containers, whose image is a Debian, on an engine of this architecture.
 */
export const containerPlatform = (architecture: string): Platform => ({
  os: "linux",
  cpu: { x86_64: "x64", aarch64: "arm64" }[architecture] ?? architecture,
  libc: "glibc",
});

export const platformKey = ({ os, cpu, libc }: Platform): string => `${os}-${cpu}${libc === "musl" ? "-musl" : ""}`;

/** Returns the folder of a platform's tools, creating it if need be. */
export function toolsFolder(dataDir: string, platform: Platform): string {
  const folder = join(dataDir, "tools", platformKey(platform));
  for (const path of [join(folder, "bin"), join(folder, "agents")]) {
    if (existsSync(path)) continue;
    mkdirSync(path, { recursive: true });
    // Regardless of our umask, because another user may run them.
    for (const made of [dirname(folder), folder, path]) chmodSync(made, 0o755);
  }
  return folder;
}

export interface Installed {
  readonly name: string;
  readonly version: string;
  readonly sizeBytes: number;
  readonly installedAt: string;
  /** Its program, relative to the tools' folder; differs for each pin. */
  readonly target: string;
}

export const installedRecordName = "wavesmith.json";

/** Lists what is installed in a folder of tools, in the table's order. */
export function listInstalled(folder: string): Installed[] {
  return pinnedAgents.flatMap((agent) => findInstalled(folder, agent.name, programOf(agent)) ?? []);
}

function findInstalled(folder: string, name: string, program: string): Installed | null {
  try {
    const target = join("bin", readlinkSync(join(folder, "bin", program)));
    const version = target.split("/").slice(0, 3).join("/");
    const record = JSON.parse(readFileSync(join(folder, version, installedRecordName), "utf8")) as Omit<
      Installed,
      "target"
    >;
    return existsSync(join(folder, target)) ? { ...record, name, target } : null;
  } catch {
    return null; // Missing, or something that an install fixes.
  }
}

/** Returns the folders of unused versions, and the leftovers of killed installs. */
export function leftVersions(folder: string, name: string): string[] {
  const used = listInstalled(folder).map(({ target }) => join(folder, target));
  const versions = join(folder, "agents", name);
  if (!existsSync(versions)) return [];
  return readdirSync(versions)
    .map((entry) => join(versions, entry))
    .filter((path) => !used.some((target) => target.startsWith(`${path}/`)));
}
