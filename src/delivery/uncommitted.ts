import { copyFile, mkdtemp, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import type { OwnRepository } from "./own-repository.ts";

/** A file whose content in the working tree is in no commit. */
export interface UncommittedFile {
  /** As `git status --short` writes it: `M`, `A`, `D`, `R` or `??` for a file git does not know. */
  readonly state: string;
  readonly path: string;
}

/**
 * Lists the uncommitted files of a working tree, which agents would not see, except ignored ones.
 * `except` are absolute paths that do not count, such as the plan's file.
 */
export async function listUncommitted(
  { git, root, isBare }: OwnRepository,
  except: ReadonlySet<string>,
): Promise<UncommittedFile[]> {
  if (isBare) return [];
  const args = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=none"];
  const fields = (await git.text(args)).split("\0").filter((field) => field !== "");
  const files = fields.map((field) => ({ state: field.slice(0, 2).trim(), path: field.slice(3) }));
  return files.filter(({ path }) => !except.has(resolve(root, path)));
}

/**
 * Makes a commit of the whole working tree on top of HEAD, ignored files aside, that no ref names.
 * Reads the working tree and copies the index; changes neither. Fails with `usage` in the middle of
 * a merge with conflicts.
 */
export async function commitUncommitted({ git, root, head }: OwnRepository): Promise<string> {
  if ((await git.text(["ls-files", "-z", "--unmerged"])) !== "") {
    throw new WavesmithError("usage", `${root} is in the middle of a merge with conflicts`, {
      remedy: "resolve them and commit, or abort the merge",
    });
  }
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-index-"));
  try {
    const index = join(folder, "index");
    const present = await git.text(["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    await copyIndex(present, index);
    const env = { GIT_INDEX_FILE: index };
    await git.run(["add", "--all", "--", "."], { env });
    const tree = await git.text(["write-tree"], { env });
    const parent = head === null ? [] : ["-p", head];
    const input = `Uncommitted work in ${basename(root)}\n`;
    return await git.text(["commit-tree", tree, ...parent], { input, env: await identityFor({ git }) });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Our identity, for people who have set none; this commit does not need theirs. */
async function identityFor({ git }: Pick<OwnRepository, "git">): Promise<Record<string, string>> {
  const args = ["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"];
  if ((await git.run(args, { answers: [0, 128] })).exitCode === 0) return {};
  const [name, email] = ["Wavesmith", "wavesmith@localhost"];
  return { GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email, GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email };
}

/**
 * Copies an index, if there is one, with its time. Git rereads a file that is as new as the index,
 * because it may have changed in the same moment, so the copy must not be newer.
 */
async function copyIndex(from: string, to: string): Promise<void> {
  const original = await stat(from).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null; // A repository without commits may have none yet.
    throw error;
  });
  if (original === null) return;
  await copyFile(from, to);
  const writtenAt = Math.floor(original.mtimeMs / 1000);
  await utimes(to, writtenAt, writtenAt);
}
