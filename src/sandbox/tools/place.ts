// Where installed agents lie on the host, and what of them is shown in sandboxes.
//
//   <data directory>/tools/<platform>/bin/<program>                    a link into the folder of the version in use
//   <data directory>/tools/<platform>/agents/<name>/<version>-<pin>/   what npm made of one pin, never changed again
//
// T1. The link is what counts: it is swapped in one step, when everything it leads to is there.
// T2. The folder of a platform itself is made once and stays: sandboxes that run have it mounted.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { pinnedAgents, programOf } from "./table.ts";

/** Where a sandbox sees them; `bin` of it is on its PATH. */
export const toolsInside = "/opt/wavesmith-tools";

/** For what system and processor programs are, in npm's words. */
export interface Platform {
  readonly os: string;
  readonly cpu: string;
  readonly libc: "glibc" | "musl" | null;
}

let host: Platform | null = null;

/** Of this machine. */
export function hostPlatform(): Platform {
  const { platform: os, arch: cpu } = process;
  host ??= { os, cpu, libc: os === "linux" ? hostLibc() : null };
  return host;
}

function hostLibc(): "glibc" | "musl" {
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  report.excludeNetwork = true; // It would look up the names of every address.
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime === undefined ? "musl" : "glibc";
}

/** Of containers, whose image is a Debian, on an engine that says this of itself. */
export const containerPlatform = (architecture: string): Platform => ({
  os: "linux",
  cpu: { x86_64: "x64", aarch64: "arm64" }[architecture] ?? architecture,
  libc: "glibc",
});

export const platformKey = ({ os, cpu, libc }: Platform): string => `${os}-${cpu}${libc === "musl" ? "-musl" : ""}`;

/** The folder of a platform's tools, which is made if need be. */
export function toolsFolder(dataDir: string, platform: Platform): string {
  const folder = join(dataDir, "tools", platformKey(platform));
  for (const path of [join(folder, "bin"), join(folder, "agents")]) {
    if (existsSync(path)) continue;
    mkdirSync(path, { recursive: true });
    // Whatever our umask is: who runs them may be another user.
    for (const made of [dirname(folder), folder, path]) chmodSync(made, 0o755);
  }
  return folder;
}

export interface Installed {
  readonly name: string;
  readonly version: string;
  readonly sizeBytes: number;
  readonly installedAt: string;
  /** Its program, seen from the tools' folder: another one for another pin. */
  readonly target: string;
}

export const recordName = "wavesmith.json";

/** What is installed in a folder of tools, in the table's order. */
export function listInstalled(folder: string): Installed[] {
  return pinnedAgents.flatMap((agent) => findInstalled(folder, agent.name, programOf(agent)) ?? []);
}

function findInstalled(folder: string, name: string, program: string): Installed | null {
  try {
    const target = join("bin", readlinkSync(join(folder, "bin", program)));
    const version = target.split("/").slice(0, 3).join("/");
    const record = JSON.parse(readFileSync(join(folder, version, recordName), "utf8")) as Omit<Installed, "target">;
    return existsSync(join(folder, target)) ? { ...record, name, target } : null;
  } catch {
    return null; // Nothing, or something that an install puts right.
  }
}

/**
 * The folders of versions that nothing leads to any more, and the half of installs that were
 * killed.
 */
export function leftVersions(folder: string, name: string): string[] {
  const used = listInstalled(folder).map(({ target }) => join(folder, target));
  const versions = join(folder, "agents", name);
  if (!existsSync(versions)) return [];
  return readdirSync(versions)
    .map((entry) => join(versions, entry))
    .filter((path) => !used.some((target) => target.startsWith(`${path}/`)));
}
