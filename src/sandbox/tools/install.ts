import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { withLock } from "../host/lock.ts";
import { runNpm } from "./npm.ts";
import {
  hostPlatform,
  type Installed,
  installedRecordName,
  leftVersions,
  listInstalled,
  type Platform,
  platformKey,
  toolsFolder,
} from "./place.ts";
import { type PinnedAgent, programOf } from "./table.ts";

export type InstallProgress =
  | { readonly type: "begin"; readonly packages: number }
  | { readonly type: "fetched"; readonly count: number; readonly what: string };

export interface InstallRequest {
  readonly dataDir: string;
  readonly platform: Platform;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly onProgress: (progress: InstallProgress) => void;
  readonly signal: AbortSignal;
}

export interface Installation extends Installed {
  readonly unchanged: boolean;
  readonly folder: string;
}

const lockWaitMs = 10 * 60_000;

/**
 * Installs the pinned version of an agent with npm: every package by the hash in the pin's lock,
 * without running scripts. The previous version stays in use until the new one is complete. Safe to
 * call twice and from two processes.
 */
export async function installAgent(agent: PinnedAgent, request: InstallRequest): Promise<Installation> {
  refusePlatform(agent, request.platform);
  const folder = toolsFolder(request.dataDir, request.platform);
  const version = join(folder, "agents", agent.name, `${agent.version}-${pinHash(agent)}`);
  return withLock(join(request.dataDir, "locks", "tools"), lockWaitMs, async () => {
    // Agents may still run the replaced version, so the next install removes it.
    for (const path of leftVersions(folder, agent.name)) {
      if (path !== version) await rm(path, { recursive: true, force: true });
    }
    const before = listInstalled(folder).find(({ name }) => name === agent.name);
    if (before !== undefined && join(folder, before.target).startsWith(`${version}/`))
      return { ...before, unchanged: true, folder };
    await make(agent, version, request);
    link(folder, agent, version);
    const made = listInstalled(folder).find(({ name }) => name === agent.name);
    if (made === undefined) throw new WavesmithError("internal", `${agent.name} was installed but cannot be found`);
    return { ...made, unchanged: false, folder };
  });
}

function refusePlatform({ title, platforms, command }: PinnedAgent, platform: Platform): void {
  const key = platformKey(platform);
  if (platforms === null || platforms.includes(key)) return;
  const program = programOf({ command });
  throw new WavesmithError("unsupported", `${title} is pinned for ${platforms.join(", ")}, and this is ${key}`, {
    remedy: `install it yourself; with ${program} on PATH, --sandbox local shows it to agents`,
  });
}

const pinFolder = ({ name }: PinnedAgent): string => fileURLToPath(new URL(`./pins/${name}`, import.meta.url));

const pinHash = (agent: PinnedAgent): string =>
  createHash("sha256")
    .update(readFileSync(join(pinFolder(agent), "package-lock.json")))
    .digest("hex")
    .slice(0, 8);

async function make(agent: PinnedAgent, version: string, request: InstallRequest): Promise<void> {
  if (existsSync(version)) return; // Complete; only its link was missing.
  const draft = `${version}.${randomBytes(6).toString("hex")}.draft`;
  try {
    mkdirSync(draft, { recursive: true });
    for (const name of ["package.json", "package-lock.json"])
      copyFileSync(join(pinFolder(agent), name), join(draft, name));
    await fetchPackages(draft, request);
    if (!existsSync(join(draft, agent.program)))
      throw new WavesmithError("environment", `npm installed ${agent.package} without ${agent.program}`, {
        remedy: `it may not support ${platformKey(request.platform)}: install it yourself, on PATH`,
      });
    const sizeBytes = openToAll(draft);
    const record = { name: agent.name, version: agent.version, sizeBytes, installedAt: new Date().toISOString() };
    writeFileSync(join(draft, installedRecordName), `${JSON.stringify(record)}\n`, { mode: 0o644 });
    renameSync(draft, version);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw isDiskFull(error) ? full(request.dataDir, error) : error;
  }
}

const full = (dataDir: string, error: unknown): WavesmithError =>
  new WavesmithError("environment", `the disk that holds ${dataDir} is full: ${messageOf(error)}`, {
    remedy: "free some space, or use another folder: --data DIR",
    cause: error,
  });

async function fetchPackages(draft: string, request: InstallRequest): Promise<void> {
  const { platform, environment, onProgress, signal } = request;
  const lock = JSON.parse(readFileSync(join(draft, "package-lock.json"), "utf8")) as { packages: object };
  onProgress({ type: "begin", packages: Object.keys(lock.packages).length - 1 });
  const kept = ["--ignore-scripts", "--include=optional", "--omit=dev", "--install-strategy=hoisted"];
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=http"];
  const isHost = platformKey(platform) === platformKey(hostPlatform());
  const target = [
    `--os=${platform.os}`,
    `--cpu=${platform.cpu}`,
    ...(platform.libc ? [`--libc=${platform.libc}`] : []),
  ];
  let count = 0;
  await runNpm({
    args: ["ci", "--prefix", draft, ...kept, ...quiet, ...(isHost ? [] : target)],
    cwd: draft,
    environment,
    signal,
    onLine: (line) => {
      const fetched = /^npm http (?:fetch|cache) (?:GET )?(?:\d+ )?(\S+)/.exec(line)?.[1];
      if (fetched === undefined) return;
      count += 1;
      onProgress({ type: "fetched", count, what: shownPackage(fetched) });
    },
  });
}

/** `https://registry/@a/b/-/b-1.0.0.tgz` is `@a/b`. */
const shownPackage = (url: string): string => /((?:@[^/]+\/)?[^/]+)\/-\//.exec(decodeURIComponent(url))?.[1] ?? url;

/** Makes everything readable for every user, regardless of our umask; returns the size. */
function openToAll(path: string): number {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return 0;
  const open = stat.isDirectory() || (stat.mode & 0o100) !== 0 ? 0o555 : 0o444;
  chmodSync(path, (stat.mode & 0o755) | open);
  if (!stat.isDirectory()) return stat.size;
  return readdirSync(path).reduce((sum, name) => sum + openToAll(join(path, name)), 0);
}

/** The commit point (TP1). */
function link(folder: string, agent: PinnedAgent, version: string): void {
  const bin = join(folder, "bin");
  const draft = join(bin, `.${programOf(agent)}.${randomBytes(6).toString("hex")}`);
  for (const name of readdirSync(bin).filter((entry) => entry.startsWith("."))) rmSync(join(bin, name));
  symlinkSync(relative(bin, join(version, agent.program)), draft);
  renameSync(draft, join(bin, programOf(agent)));
}
