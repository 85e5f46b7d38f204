// Installed agents for containers: one volume for all sandboxes of an installation, mounted
// read-only.
//
// DV5. A tools volume is filled once and never changed. Another set of agents gets another volume,
// so that a container's mount stays as it is.
// DV6. The mark that names the volume is made when the volume is complete, by one act of the engine
// (DV2). If two processes fill one at once, the first mark wins and the other process uses it too.
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type Pack, pack } from "tar-stream";
import { containerPlatform, type Installed, listInstalled, toolsFolder } from "../../tools/place.ts";
import { type DockerResources, makingOf } from "./docker-resources.ts";
import { label } from "./names.ts";
import { removeArchiveContainers, unpackVolume } from "./volume/archive.ts";

/** Volumes that were filled in another format are not used. */
const archiveForm = 3;
/** How long an answer is reused, because every step of every task asks. */
const recentMs = 30_000;
const recent = new WeakMap<DockerResources, { readonly set: string; readonly volume: string; readonly atMs: number }>();

/**
 * Returns the name of the volume with the installed agents, creating it if need be; null when none
 * are installed.
 */
export async function ensureTools(resources: DockerResources, image: string): Promise<string | null> {
  const { options } = resources;
  const folder = toolsFolder(options.dataDir, containerPlatform((await resources.info()).Architecture));
  const installed = listInstalled(folder);
  if (installed.length === 0) return null;
  const set = createHash("sha256")
    .update(JSON.stringify([archiveForm, ...installed.map(({ target }) => target)]))
    .digest("hex")
    .slice(0, 16);
  const known = recent.get(resources);
  if (known?.set === set && performance.now() - known.atMs < recentMs) return known.volume;
  const volume =
    (await resources.volumes.findTools(set)) ??
    (await fill(resources, { set, image, archive: () => packed(folder, installed) }));
  recent.set(resources, { set, volume, atMs: performance.now() });
  return volume;
}

interface Filling {
  readonly set: string;
  readonly image: string;
  readonly archive: () => Readable;
}

async function fill(resources: DockerResources, { set, image, archive }: Filling): Promise<string> {
  const { engine, volumes, options } = resources;
  const labels = { [label.installation]: options.installationId, [label.tools]: set };
  // Containers of killed processes hold half-filled volumes.
  await removeArchiveContainers(engine, { ...labels, [label.tools]: "" }, false);
  const tools = { set, dataDir: dirname(realpathSync(join(options.dataDir, "tools"))) };
  const volume = await volumes.beginTools(tools);
  const making = await makingOf(resources);
  const work = { volume, image, labels, making, format: "tar.gz", maxBytes: Number.MAX_SAFE_INTEGER } as const;
  try {
    await unpackVolume(engine, work, archive());
  } catch (error) {
    await volumes.remove(volume);
    throw error;
  }
  return volumes.markTools(tools, volume);
}

/** Returns the installed agents as an archive: the version in use of each, and its link. */
function packed(folder: string, installed: readonly Installed[]): Readable {
  const archive = pack();
  // Level 0, because compressing takes longer than sending through a local socket.
  const stream = createGzip({ level: 0 });
  const addAll = async (): Promise<void> => {
    await entry(archive, { name: "./", mode: 0o755, type: "directory" });
    const versions = installed.map(({ target }) => target.split("/").slice(0, 3).join("/"));
    const links = readdirSync(join(folder, "bin")).map((name) => `bin/${name}`);
    // Folders that the archive does not name are closed to everybody but their owner.
    const parents = new Set(versions.map((path) => path.split("/").slice(0, 2).join("/")));
    for (const name of ["bin", "agents", ...parents]) await entry(archive, { name, mode: 0o755, type: "directory" });
    for (const path of [...links, ...versions]) await add(archive, folder, path);
    archive.finalize();
  };
  addAll().catch((error: Error) => archive.destroy(error));
  pipeline(archive, stream).catch((error: Error) => stream.destroy(error));
  return stream;
}

async function add(archive: Pack, folder: string, name: string): Promise<void> {
  const path = join(folder, name);
  const stat = lstatSync(path);
  // Readable by every job's user, regardless of its owner here.
  const mode = (stat.mode & 0o777) | 0o444 | ((stat.mode & 0o100) === 0 ? 0 : 0o111);
  const common = { name, mode, mtime: stat.mtime };
  if (stat.isSymbolicLink()) {
    await entry(archive, { ...common, type: "symlink", linkname: readlinkSync(path) });
  } else if (stat.isDirectory()) {
    await entry(archive, { ...common, type: "directory" });
    for (const child of readdirSync(path)) await add(archive, folder, `${name}/${child}`);
  } else if (stat.isFile()) {
    await pipeline(createReadStream(path), archive.entry({ ...common, type: "file", size: stat.size }));
  }
}

const entry = (archive: Pack, header: Parameters<Pack["entry"]>[0]): Promise<void> =>
  new Promise((resolve, reject) => archive.entry(header, (error) => (error ? reject(error) : resolve())));
