import { lstat, mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { Plan } from "../domain/plan.ts";
import { syncFolder } from "./durable.ts";
import { dependencyFolders, exactBytes, excludeRules } from "./excludes.ts";
import { assertSha, type Git, identityEnvironment, splitZ, wavesmithIdentity } from "./git.ts";
import { readBlob } from "./history.ts";
import type { Sha } from "./port.ts";
import { resolveCommit } from "./refs.ts";
import type { Scratch } from "./scratch.ts";

// S1. The authority appears whole, by one rename, or not at all: whoever was killed before is
// simply repeated.
// S2. A source is read only. A root commit made here has a fixed date and author: the same content,
// the same SHA.

const mainRef = "refs/heads/main";
const rootDate = new Date("2000-01-01T00:00:00Z");

export interface Preparing {
  readonly git: Git;
  readonly scratch: Scratch;
  /** Wavesmith's own data, never part of a source it happens to lie in. */
  readonly dataDir: string;
  /** Where the authority is to be. */
  readonly gitDir: string;
  crashPoint(name: string): Promise<void>;
}

/** Makes the authority with its `main`, or keeps the one that is there. Returns main's SHA. */
export async function prepareAuthority(preparing: Preparing, source: Plan["source"]): Promise<Sha> {
  const { git, gitDir, scratch } = preparing;
  const standing = await standingMain(git, gitDir);
  if (standing !== null) return standing;
  await scratch.use(async (folder) => {
    const made = join(folder, "authority.git");
    await initAuthority(git, made);
    const main = await readSource(preparing, made, source);
    await refuseUnsupported(git, made, main);
    await git.run(["update-ref", mainRef, main], { gitDir: made });
    await preparing.crashPoint("prepare.made");
    await rename(made, gitDir).catch((error) => {
      // Another process was first; what it made stands.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    await syncFolder(dirname(gitDir));
  });
  const main = await standingMain(git, gitDir);
  if (main === null) throw new WavesmithError("git", `the repository ${gitDir} was made but is not there`);
  return main;
}

async function standingMain(git: Git, gitDir: string): Promise<Sha | null> {
  if ((await stat(gitDir).catch(() => null)) === null) return null; // absent: it is to be made
  const main = await resolveCommit(git, gitDir, mainRef);
  if (main !== null) return main;
  throw new WavesmithError("git", `the repository ${gitDir} has no main`, {
    remedy: "put its refs/heads/main back, or move the folder away to begin the project anew",
  });
}

async function initAuthority(git: Git, gitDir: string): Promise<void> {
  const args = ["init", "-q", "--bare", "--template=", "--object-format=sha1", "--initial-branch=main", gitDir];
  await git.run(args);
  await mkdir(join(gitDir, "info"), { recursive: true });
  // Of a tree's attributes none may change how a merge or an import goes.
  await writeFile(join(gitDir, "info", "attributes"), exactBytes.replace("\n", " !merge\n"));
}

async function readSource(preparing: Preparing, made: string, source: Plan["source"]): Promise<Sha> {
  if (source.kind === "empty") return rootCommit(preparing.git, made, await emptyTree(preparing.git, made));
  if (source.kind === "git") return fetchSource(preparing.git, made, { from: source.url, ref: source.ref ?? "HEAD" });
  const path = resolve(source.path);
  const found = await stat(path).catch(() => null); // absent or unreadable: said below
  if (!found?.isDirectory()) {
    throw new WavesmithError("not-found", `source: there is no folder ${path}`, {
      remedy: "correct source.path in the plan",
    });
  }
  if (await isRepository(path)) return fetchSource(preparing.git, made, { from: path, ref: "HEAD" });
  return importFolder(preparing, made, path);
}

async function isRepository(path: string): Promise<boolean> {
  const has = async (name: string) => (await lstat(join(path, name)).catch(() => null)) !== null; // absent is an answer
  return (await has(".git")) || ((await has("HEAD")) && (await has("objects")) && (await has("refs")));
}

function emptyTree(git: Git, gitDir: string): Promise<Sha> {
  return git.text(["hash-object", "-t", "tree", "-w", "--stdin"], { gitDir, input: "" });
}

async function rootCommit(git: Git, gitDir: string, tree: Sha): Promise<Sha> {
  const env = identityEnvironment(wavesmithIdentity, rootDate);
  return assertSha(await git.text(["commit-tree", tree], { gitDir, env, input: "Begin\n" }));
}

async function fetchSource(git: Git, gitDir: string, source: { from: string; ref: string }): Promise<Sha> {
  const { from, ref } = source;
  if (ref.startsWith("-") || /[\x00-\x20:^~?*[\\]/.test(ref)) {
    throw new WavesmithError("usage", `source: ${JSON.stringify(ref)} is no branch, tag or commit`);
  }
  const args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--end-of-options"];
  const result = await git.run([...args, from, `+${ref}:${incoming}`], { gitDir, answers: [0, 1, 128] });
  const commit = await resolveCommit(git, gitDir, incoming);
  if (result.exitCode !== 0 || commit === null) throw sourceFailure(source, result.stderr);
  await git.run(["update-ref", "-d", incoming], { gitDir });
  return commit;
}

const incoming = "refs/wavesmith/source";

function sourceFailure(source: { from: string; ref: string }, said: string): WavesmithError {
  const place = `source: ${source.from}`;
  if (/shallow/.test(said)) {
    return new WavesmithError("unsupported", `${place} is a shallow clone, whose history is cut off`, {
      remedy: `git -C ${source.from} fetch --unshallow`,
    });
  }
  if (/couldn't find remote ref/.test(said)) {
    const nothing = source.ref === "HEAD" ? "has no commit" : `has no ${source.ref}`;
    return new WavesmithError("not-found", `${place} ${nothing}`, {
      remedy: "commit something there, or correct source in the plan",
    });
  }
  return new WavesmithError("git", `${place} could not be fetched: ${said.trim()}`, { retryable: true });
}

/** One root commit of a plain folder's files, by its own .gitignore. */
async function importFolder(preparing: Preparing, made: string, path: string): Promise<Sha> {
  const { git, dataDir } = preparing;
  const inside = relative(path, dataDir);
  const own = inside !== "" && !inside.startsWith("..") ? `/${inside.replace(/[\\*?[\]!# ]/g, "\\$&")}/\n` : "";
  await writeFile(join(made, "info", "exclude"), `${excludeRules([".wavesmith", ...dependencyFolders])}${own}`);
  const env = { GIT_WORK_TREE: path, GIT_INDEX_FILE: join(made, "import-index"), GIT_LITERAL_PATHSPECS: "0" };
  const options = { gitDir: made, cwd: path, env };
  await git.run(["add", "-A", "."], options).catch((cause) => {
    throw new WavesmithError("git", `source: the folder ${path} could not be read: ${messageOf(cause)}`, { cause });
  });
  const tree = await git.text(["write-tree"], options);
  await rm(env.GIT_INDEX_FILE);
  await rm(join(made, "info", "exclude"));
  return rootCommit(git, made, assertSha(tree));
}

/** Submodules and LFS files would be silently empty in every tree, so they are refused by name. */
async function refuseUnsupported(git: Git, gitDir: string, main: Sha): Promise<void> {
  const { stdout } = await git.run(["ls-tree", "-r", "-z", main], { gitDir });
  const files = splitZ(stdout).map((line) => ({ mode: line.slice(0, 6), path: line.slice(line.indexOf("\t") + 1) }));
  const submodule = files.find((file) => file.mode === "160000");
  if (submodule !== undefined) throw unsupported(`${submodule.path} is a submodule, or a repository in the repository`);
  for (const { path } of files.filter((file) => basename(file.path) === ".gitattributes")) {
    const text = (await readBlob(git, gitDir, { sha: main, path }))?.toString("utf8") ?? "";
    const rule = text.split("\n").find((line) => !line.startsWith("#") && /\sfilter=lfs(\s|$)/.test(line));
    if (rule !== undefined) throw unsupported(`${path} puts files into Git LFS (${rule.trim()})`);
  }
}

function unsupported(what: string): WavesmithError {
  return new WavesmithError("unsupported", `source: ${what}, which is not supported yet`, {
    remedy: "begin from a copy without it",
  });
}
