import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { WavesmithError } from "../../../domain/errors.ts";
import { isAtOrBelow, whyForbidden } from "../../host/secret-places.ts";
import { toolsInside } from "../../tools/place.ts";

/** A folder or file of the host, and where the sandbox sees it read-only. */
export interface ShownFolder {
  readonly source: string;
  readonly target: string;
}

export interface Tools {
  readonly shown: readonly ShownFolder[];
  /** PATH inside the sandbox: only folders that are visible there. */
  readonly path: string;
}

export interface ToolSources {
  readonly PATH: string;
  readonly HOME: string;
  /** The program that runs us, and the guest too. */
  readonly execPath: string;
  readonly readOnly: readonly string[];
  /** Never shown, and nothing that contains it is shown. */
  readonly dataDir: string;
}

/** Shown in every sandbox where they exist. */
export const systemFolders = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/nix/store",
  "/gnu/store",
];
const placesOfOurs = ["/workspace", "/run/wavesmith", "/opt/wavesmith", toolsInside, "/proc", "/dev", "/etc"];
const enoughRoots = 100;
const recentMs = 5_000;

/**
 * Finds what must be visible so that the programs on PATH work: for `~/.nvm/versions/node/v20/bin`
 * the version's folder, for `~/.pyenv/shims` pyenv's, for a folder of links their targets. Never a
 * home, and nothing that holds credentials. Fails with `usage` when `readOnly` names such a folder.
 */
export function findTools(sources: ToolSources): Tools {
  const found = new Map<string, string>();
  for (const named of sources.readOnly) {
    const source = checkedReadOnly(named, sources);
    found.set(resolve(named), source);
    found.set(source, source);
  }
  const path = pathFolders(sources).flatMap((folder) => showPathFolder(folder, sources, found));
  followLinks(path, sources, found);
  const shown = [...found].map(([target, source]) => ({ source, target })).filter((one) => !isSystem(one.target));
  shown.sort((a, b) => a.target.length - b.target.length || (a.target < b.target ? -1 : 1));
  return { shown: withoutNested(shown), path: [...new Set(path)].join(":") };
}

let recent: { readonly of: string; readonly tools: Tools; readonly atMs: number } | null = null;

/**
 * Returns the tools as found up to five seconds ago for the same sources, because a command tries a
 * sandbox and then starts one.
 */
export function recentTools(sources: ToolSources): Tools {
  const of = JSON.stringify(sources);
  if (recent?.of !== of || performance.now() - recent.atMs > recentMs)
    recent = { of, tools: findTools(sources), atMs: performance.now() };
  return recent.tools;
}

function checkedReadOnly(named: string, { HOME, dataDir }: ToolSources): string {
  const refuse = (why: string): never => {
    throw new WavesmithError("usage", `sandbox.readOnly names ${named}, which is not shown in a sandbox: ${why}`, {
      remedy: "name only the tool's own folder",
    });
  };
  if (!isAbsolute(named)) return refuse("it is not an absolute path");
  if (!existsSync(named)) return refuse("it does not exist");
  const source = realpathSync(named);
  const why = whyForbidden(source, real(HOME), true) ?? whyForbidden(resolve(named), HOME, true);
  if (why !== null) return refuse(why);
  if (isAtOrBelow(dataDir, source) || isAtOrBelow(source, dataDir)) return refuse(`Wavesmith's data is in ${dataDir}`);
  return source;
}

/**
 * Returns the folders of PATH in order, and that of our own node. npm's script folders hold our
 * tools, not the user's, and are left out.
 */
function pathFolders({ PATH, execPath }: ToolSources): string[] {
  const folders = PATH.split(":")
    .filter((folder) => isAbsolute(folder) && !/node_modules\/\.bin\/?$|node-gyp-bin\/?$/.test(folder))
    .map((folder) => resolve(folder));
  const own = dirname(realpathSync(execPath));
  if (folders.some((folder) => real(folder) === own)) return folders;
  return isSystem(own) ? [...folders, own] : [own, ...folders];
}

/**
 * Makes visible the folders that a PATH entry needs; returns its entries for PATH in the sandbox.
 */
function showPathFolder(folder: string, sources: ToolSources, found: Map<string, string>): string[] {
  const source = real(folder);
  if (!existsSync(source) || !statSync(source).isDirectory()) return [];
  if (isSystem(source)) return [isSystem(folder) ? folder : source];
  const root = rootOf(source, sources);
  if (root === null || placesOfOurs.some((place) => isAtOrBelow(root, place) || isAtOrBelow(folder, place))) return [];
  found.set(root, root);
  // Shims contain their path as PATH spells it, even when that goes through a link.
  if (source !== folder && source.endsWith(folder.slice(dirname(folder).length))) {
    const above = source.slice(root.length);
    const target = folder.endsWith(above) ? folder.slice(0, folder.length - above.length) : folder;
    found.set(target, folder.endsWith(above) ? root : source);
  }
  const toolchain = rustToolchain(folder, sources);
  if (toolchain !== null) found.set(toolchain, toolchain);
  return toolchain === null ? [folder] : [join(toolchain, "bin"), folder];
}

/**
 * Returns the smallest folder with which programs in `bin` work: its parent, unless that is a home
 * or may hold secrets.
 */
function rootOf(bin: string, sources: ToolSources): string | null {
  const above = dirname(bin);
  if (/^(s?bin|shims)$/.test(basename(bin)) && isPrefix(above, sources)) return above;
  return mayShow(bin, sources) ? bin : null;
}

function isPrefix(folder: string, sources: ToolSources): boolean {
  if (!mayShow(folder, sources)) return false;
  const [first] = folder.slice(real(sources.HOME).length + 1).split("/");
  if (!isAtOrBelow(folder, real(sources.HOME)) || first!.startsWith(".")) return true;
  // A home also holds people's own projects, beside the folders of tool managers.
  const has = (name: string) => existsSync(join(folder, name));
  return ["lib", "libexec", "pkg"].some(has) && ![".git", "package.json"].some(has);
}

function mayShow(folder: string, { HOME, dataDir }: ToolSources): boolean {
  return whyForbidden(folder, real(HOME)) === null && !isAtOrBelow(dataDir, folder) && !isAtOrBelow(folder, dataDir);
}

/**
 * rustup's proxies look for their toolchain in a home that the sandbox lacks, so the toolchain
 * itself goes on PATH.
 */
function rustToolchain(folder: string, { HOME }: ToolSources): string | null {
  if (!existsSync(join(folder, "rustup"))) return null;
  const rustup = join(HOME, ".rustup");
  const settings = join(rustup, "settings.toml");
  const name = existsSync(settings)
    ? /^default_toolchain = "([\w.-]+)"/m.exec(readFileSync(settings, "utf8"))?.[1]
    : undefined;
  const toolchain = name === undefined ? null : join(rustup, "toolchains", name);
  return toolchain !== null && existsSync(join(toolchain, "bin")) ? toolchain : null;
}

/** Shows the targets of links in the folders of PATH, and follows links there too. */
function followLinks(path: readonly string[], sources: ToolSources, found: Map<string, string>): void {
  const queue = [...path];
  for (const folder of queue) {
    if (found.size > enoughRoots) return;
    for (const file of linkedFiles(folder)) {
      if (isSystem(file) || [...found.keys()].some((root) => isAtOrBelow(file, root))) continue;
      const bin = dirname(file);
      const inBin = /^s?bin$/.test(basename(bin)) ? rootOf(bin, sources) : null;
      const root = inBin ?? (mayShow(file, sources) ? file : null);
      if (root === null || placesOfOurs.some((place) => isAtOrBelow(root, place))) continue;
      found.set(root, root);
      if (inBin !== null) queue.push(bin);
    }
  }
}

function linkedFiles(folder: string): string[] {
  const links = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isSymbolicLink());
  return links
    .map((entry) => real(join(folder, entry.name)))
    .filter((file) => existsSync(file) && statSync(file).isFile());
}

function withoutNested(sorted: readonly ShownFolder[]): ShownFolder[] {
  return sorted.filter(
    (one, index) =>
      !sorted
        .slice(0, index)
        .some(
          (other) =>
            isAtOrBelow(one.target, other.target) &&
            one.source === join(other.source, one.target.slice(other.target.length)),
        ),
  );
}

function isSystem(path: string): boolean {
  return systemFolders.some((folder) => isAtOrBelow(path, folder));
}

/** Resolves every link of a path; returns the path itself when it does not exist. */
function real(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path);
}
