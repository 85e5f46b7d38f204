// Installed agents for containers: one volume for all sandboxes of an installation, mounted
// read-only.
//
// V5. A volume of tools is filled once and never changed: another set of agents is another volume,
// so that what a container has mounted stays as it is.
// V6. The mark that names it is made when it is whole, by one act of the engine (V2): of two
// processes that fill one at once the first to mark wins, and the other takes the winner's.
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type Pack, pack } from "tar-stream";
import { containerPlatform, type Installed, listInstalled, toolsFolder } from "../../tools/place.ts";
import { removeArchiveContainers, unpackVolume } from "./archive.ts";
import { type House, makingOf } from "./house.ts";
import { label } from "./names.ts";

/** Of volumes that are filled in another way none is taken. */
const archiveForm = 2;
/** Every step of every task asks: what was found is believed for so long. */
const recentMs = 30_000;
const recent = new WeakMap<House, { readonly set: string; readonly volume: string; readonly atMs: number }>();

/** The name of the volume with what is installed now, made if need be; null when nothing is. */
export async function ensureTools(house: House, image: string): Promise<string | null> {
  const { options } = house;
  const folder = toolsFolder(options.dataDir, containerPlatform((await house.info()).Architecture));
  const installed = listInstalled(folder);
  if (installed.length === 0) return null;
  const set = createHash("sha256")
    .update(JSON.stringify([archiveForm, ...installed.map(({ target }) => target)]))
    .digest("hex")
    .slice(0, 16);
  const known = recent.get(house);
  if (known?.set === set && performance.now() - known.atMs < recentMs) return known.volume;
  const volume =
    (await house.volumes.findTools(set)) ??
    (await fill(house, { set, image, archive: () => packed(folder, installed) }));
  recent.set(house, { set, volume, atMs: performance.now() });
  return volume;
}

interface Filling {
  readonly set: string;
  readonly image: string;
  readonly archive: () => Readable;
}

async function fill(house: House, { set, image, archive }: Filling): Promise<string> {
  const { engine, volumes, options } = house;
  const labels = { [label.installation]: options.installationId, [label.tools]: set };
  // Those of processes that were killed hold what they have half filled.
  await removeArchiveContainers(engine, { ...labels, [label.tools]: "" }, false);
  const tools = { set, dataDir: dirname(realpathSync(join(options.dataDir, "tools"))) };
  const volume = await volumes.beginTools(tools);
  const making = await makingOf(house);
  const work = { volume, image, labels, making, format: "tar.gz", maxBytes: Number.MAX_SAFE_INTEGER } as const;
  try {
    await unpackVolume(engine, work, archive());
  } catch (error) {
    await volumes.remove(volume);
    throw error;
  }
  return volumes.markTools(tools, volume);
}

/** What is installed as an archive: of every agent the version in use, and its link. */
function packed(folder: string, installed: readonly Installed[]): Readable {
  const archive = pack();
  // It goes through a socket of this machine: making it smaller would take longer than sending it.
  const stream = createGzip({ level: 0 });
  const addAll = async (): Promise<void> => {
    await entry(archive, { name: "./", mode: 0o755, type: "directory" });
    const versions = installed.map(({ target }) => target.split("/").slice(0, 3).join("/"));
    const links = readdirSync(join(folder, "bin")).map((name) => `bin/${name}`);
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
  // For the user of every job, whoever it belongs to here.
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
