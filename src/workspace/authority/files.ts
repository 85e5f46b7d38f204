import { join } from "node:path";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { WavesmithError } from "../../domain/errors.ts";
import type { FileCommit, Sha, TreeEntry } from "../port.ts";
import type { ScratchFolders } from "../trees/scratch.ts";
import { assertSha, type Git, identityEnvironment, splitZ } from "./git.ts";

// Files of a commit, for people who look at a project and change a file by hand.
// PF1. A path names an entry of a git tree and nothing on this machine: a symlink is an entry of
// its own and is never followed.

const kinds: Readonly<Record<string, TreeEntry["kind"]>> = {
  "040000": "folder",
  "120000": "link",
  "160000": "repository",
};

/** Reads the entries of `ls-tree -l -z`. */
const entriesIn = (stdout: Buffer): TreeEntry[] =>
  splitZ(stdout).map((line) => {
    const tab = line.indexOf("\t");
    const [mode = "", , id = "", size = "-"] = line.slice(0, tab).split(/ +/);
    const path = line.slice(tab + 1);
    return { path, kind: kinds[mode] ?? "file", mode, id, sizeBytes: size === "-" ? null : Number(size) };
  });

/** Finds a file, folder or link at a commit; null if it is absent. */
export async function findEntry(git: Git, gitDir: string, of: { sha: Sha; path: string }): Promise<TreeEntry | null> {
  // A name may begin with a colon, which is magic in a pathspec.
  const args = ["--literal-pathspecs", "ls-tree", "-l", "-z", "--full-tree", assertSha(of.sha), "--", of.path];
  const entries = entriesIn((await git.run(args, { gitDir })).stdout);
  return entries.find(({ path }) => path === of.path) ?? null;
}

/** Lists a folder at a commit in git's order (`""` is the root); null if there is none. */
export async function listFolder(
  git: Git,
  gitDir: string,
  of: { sha: Sha; path: string },
): Promise<TreeEntry[] | null> {
  const tree = of.path === "" ? of.sha : await folderId(git, gitDir, of);
  if (tree === null) return null;
  const { stdout } = await git.run(["ls-tree", "-l", "-z", "--full-tree", assertSha(tree)], { gitDir });
  const prefix = of.path === "" ? "" : `${of.path}/`;
  return entriesIn(stdout).map((entry) => ({ ...entry, path: `${prefix}${entry.path}` }));
}

async function folderId(git: Git, gitDir: string, of: { sha: Sha; path: string }): Promise<Sha | null> {
  const entry = await findEntry(git, gitDir, of);
  return entry?.kind === "folder" ? entry.id : null;
}

/** Streams a blob. Git starts with the first read and ends with the stream. */
export function readBlobStream(git: Git, gitDir: string, id: Sha): ReadableStream<Uint8Array> {
  async function* parts() {
    const child = await git.start(gitDir, ["cat-file", "blob", assertSha(id)]);
    const ended = new Promise<number | null>((resolve) => {
      child.on("error", () => resolve(null));
      child.on("close", resolve);
    });
    try {
      yield* child.stdout;
      if ((await ended) !== 0) throw new WavesmithError("git", `git could not read the file ${id}`);
    } finally {
      child.kill();
    }
  }
  return Readable.toWeb(Readable.from(parts(), { objectMode: false, highWaterMark: 64 * 1024 }));
}

/**
 * Commits one file, with the content of `change.from`, on top of `change.parent`. Moves no ref.
 * Fails with `conflict` when a file is in a folder's place or the other way round.
 */
export async function commitFile(
  { git, gitDir, scratch }: { git: Git; gitDir: string; scratch: ScratchFolders },
  change: FileCommit,
): Promise<{ commit: Sha; id: Sha }> {
  const { parent, path, author, date, message } = change;
  const id = assertSha(await git.text(["hash-object", "-w", "--no-filters", "--", change.from], { gitDir }));
  const entry = await findEntry(git, gitDir, { sha: parent, path });
  if (entry !== null && entry.kind !== "file")
    throw new WavesmithError("conflict", `${path} is a ${entry.kind}, not a file`);
  return scratch.use(async (folder) => {
    const options = { gitDir, env: { GIT_INDEX_FILE: join(folder, "index") } };
    await git.run(["read-tree", assertSha(parent)], options);
    const added = await git.run(["update-index", "--add", "--cacheinfo", `${entry?.mode ?? "100644"},${id},${path}`], {
      ...options,
      answers: [0, 128],
    });
    if (added.exitCode !== 0) throw refusedPath(path, added.stderr);
    const tree = assertSha(await git.text(["write-tree"], options));
    const env = identityEnvironment(author, date);
    const commit = await git.text(["commit-tree", tree, "-p", parent], { gitDir, env, input: message });
    return { commit: assertSha(commit), id };
  });
}

const refusedPath = (path: string, stderr: string): WavesmithError =>
  /appears as both/.test(stderr)
    ? new WavesmithError("conflict", `a file is in the place of a folder of ${path}`)
    : new WavesmithError("usage", `git takes no file named ${path}`);
