import { WavesmithError } from "../../domain/errors.ts";
import type { RequestCommit } from "../../domain/forge.ts";
import { itemAt } from "../../domain/known.ts";
import type { ChangedFile, Sha } from "../port.ts";
import { assertSha, type Git, splitZ } from "./git.ts";
import { askObject, endMark, findObject } from "./objects.ts";

// Reads the authority; nothing here writes to it.

const mebibyte = 1 << 20;
/** How much of a commit's title we list. */
const longestTitle = 200;
const cutNote = (bytes: number) => `[diff truncated at ${bytes} bytes]\n`;

/** Fails with `git` when either commit is absent. */
export async function isAncestor(git: Git, gitDir: string, ancestor: Sha, descendant: Sha): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", assertSha(ancestor), assertSha(descendant)];
  return (await git.run(args, { gitDir, answers: [0, 1] })).exitCode === 0;
}

const statuses: Readonly<Record<string, ChangedFile["status"]>> = {
  A: "added",
  M: "modified",
  D: "deleted",
  R: "renamed",
  T: "type-changed",
};

export interface RawChange extends ChangedFile {
  /** Git's file mode after the change; `160000` is a nested repository. */
  readonly mode: string;
  /** The object's SHA after the change. */
  readonly blob: Sha;
}

const changeFormat = ["-r", "-M", "-z", "--raw", "--numstat"];

/** Lists the changes between two commits, with renames detected, in git's order of paths. */
async function changesBetween(git: Git, gitDir: string, from: Sha, to: Sha): Promise<RawChange[]> {
  const args = ["diff-tree", ...changeFormat, "--no-commit-id", assertSha(from), assertSha(to)];
  return parseChanges(splitZ((await git.run(args, { gitDir })).stdout));
}

/** Lists a commit's changes since `before`; cheaper than `changesBetween` for many commits. */
export async function changesOf(git: Git, gitDir: string, before: Sha, commit: Sha): Promise<RawChange[]> {
  const end = endMark();
  // Git echoes a line that does not start with a SHA, after its answers to all earlier lines.
  const question = `${assertSha(commit)} ${assertSha(before)}\n${end}\n`;
  const answer = await git.converse(gitDir, ["diff-tree", "--stdin", ...changeFormat]).ask(question, `${end}\n`);
  const [header, ...fields] = splitZ(answer);
  // Git prints nothing both for a missing commit and for one without changes. Ask again with a
  // command that fails for a missing one.
  if (header !== commit) return changesBetween(git, gitDir, before, commit);
  return parseChanges(fields);
}

/**
 * Parses the output of `diff-tree -z --raw [--numstat]`: all raw records, then the line counts, if
 * any, in the same order.
 */
export function parseChanges(fields: readonly string[]): RawChange[] {
  const rawRecords: { status: string; mode: string; blob: Sha; path: string; from: string | null }[] = [];
  let at = 0;
  while (fields[at]?.startsWith(":")) {
    const [, mode = "", , blob = "", status = ""] = itemAt(fields, at).split(" ");
    const renamed = status.startsWith("R") || status.startsWith("C");
    rawRecords.push({
      status,
      mode,
      blob,
      path: itemAt(fields, at + (renamed ? 2 : 1)),
      from: renamed ? itemAt(fields, at + 1) : null,
    });
    at += renamed ? 3 : 2;
  }
  return rawRecords.map((raw) => {
    const [added = "-", deleted = "-"] = (fields[at] ?? "").split("\t");
    at += raw.from === null ? 1 : 3;
    return {
      path: raw.path,
      status: statuses[raw.status.charAt(0)] ?? "modified",
      from: raw.from,
      addedLines: added === "-" ? null : Number(added),
      deletedLines: deleted === "-" ? null : Number(deleted),
      binary: added === "-",
      mode: raw.mode,
      blob: raw.blob,
    };
  });
}

export async function changedFilesBetween(git: Git, gitDir: string, from: Sha, to: Sha): Promise<ChangedFile[]> {
  return (await changesBetween(git, gitDir, from, to)).map(withoutMode);
}

export function withoutMode({ mode: _, blob: __, ...change }: RawChange): ChangedFile {
  return change;
}

/**
 * Returns a unified diff of at most `maxBytes` (default 1 MiB). A longer one is cut at a line and
 * ends with a note.
 */
export async function diffText(
  git: Git,
  gitDir: string,
  request: { from: Sha; to: Sha; maxBytes?: number; paths?: readonly string[]; except?: readonly string[] },
): Promise<string> {
  const maxBytes = request.maxBytes ?? mebibyte;
  const options = ["-r", "-p", "-M", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"];
  const args = [
    "diff-tree",
    ...options,
    assertSha(request.from),
    assertSha(request.to),
    "--",
    ...(request.paths ?? []).map((path) => `:(literal)${path}`),
    ...(request.except ?? []).map((glob) => `:(exclude,glob)${glob}`),
  ];
  // Elsewhere git takes every path literally, and with it the signs before these.
  const env = { GIT_LITERAL_PATHSPECS: "0" };
  const { stdout, cut } = await git.run(args, { gitDir, maxBytes, env });
  if (!cut) return stdout.toString("utf8");
  const note = cutNote(maxBytes);
  const kept = stdout.subarray(0, Math.max(0, maxBytes - note.length));
  return kept.subarray(0, kept.lastIndexOf(0x0a) + 1).toString("utf8") + note;
}

/** Lists the newest commits, at most `limit`, that `to` has and `from` lacks; oldest first. */
export async function listCommits(
  git: Git,
  gitDir: string,
  { from, to, limit }: { from: Sha; to: Sha; limit: number },
): Promise<RequestCommit[]> {
  const format = ["-z", "--format=%H%x01%aI%x01%an%x01%s", "--topo-order", `--max-count=${limit}`];
  const { stdout } = await git.run(["log", ...format, assertSha(to), `^${assertSha(from)}`], { gitDir });
  return splitZ(stdout)
    .map((line) => {
      const [sha = "", at = "", author = "", ...title] = line.split("\u0001");
      return { sha, title: title.join("").slice(0, longestTitle), author, at: new Date(at).toISOString() };
    })
    .reverse();
}

export interface ListedFile {
  readonly path: string;
  readonly mode: string;
  readonly sizeBytes: number;
}

export async function listFiles(git: Git, gitDir: string, sha: Sha): Promise<ListedFile[]> {
  const { stdout } = await git.run(["ls-tree", "-r", "-l", "-z", assertSha(sha)], { gitDir });
  return splitZ(stdout).map((line) => {
    const tab = line.indexOf("\t");
    const [mode = "", , , size = "-"] = line.slice(0, tab).split(/ +/);
    return { path: line.slice(tab + 1), mode, sizeBytes: size === "-" ? 0 : Number(size) };
  });
}

/** Lists a commit's folders, at every depth. */
export async function listFolders(git: Git, gitDir: string, sha: Sha): Promise<string[]> {
  return splitZ((await git.run(["ls-tree", "-r", "-d", "-z", "--name-only", assertSha(sha)], { gitDir })).stdout);
}

/**
 * Reads a file at a commit; for a symlink, its target. Returns null if the path is missing, is not
 * a file, or is larger than `maxBytes` (default 1 MiB).
 */
export async function readBlob(
  git: Git,
  gitDir: string,
  request: { sha: Sha; path: string; maxBytes?: number },
): Promise<Buffer | null> {
  const name = `${assertSha(request.sha)}:${request.path}`;
  const blob = request.path === "" ? null : await findObject(git, gitDir, name);
  if (blob?.type !== "blob" || blob.sizeBytes > (request.maxBytes ?? mebibyte)) return null;
  const answer = await askObject(git, gitDir, `contents ${blob.sha}`);
  const start = answer.indexOf(10) + 1;
  return Buffer.from(answer.subarray(start, start + blob.sizeBytes));
}

/** Returns the SHA of a commit's tree. */
export async function treeOf(git: Git, gitDir: string, commit: Sha): Promise<Sha> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`];
  const result = await git.run(args, { gitDir, answers: [0, 1, 128] });
  if (result.exitCode === 0) return result.stdout.toString("utf8").trim();
  throw new WavesmithError("not-found", `there is no commit ${commit} in ${gitDir}`);
}
