import { randomBytes } from "node:crypto";
import { lstat, mkdir, rename, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { Sha } from "../port.ts";
import { dependencyFolders, exactBytes, excludeRules } from "../trees/excludes.ts";
import type { ScratchFolders } from "../trees/scratch.ts";
import { syncFolder } from "./durable.ts";
import { assertSha, type Git, identityEnvironment, splitZ, wavesmithIdentity } from "./git.ts";
import { readBlob } from "./history.ts";
import { resolveCommit } from "./refs.ts";

// WS1. The authority appears completely, by one rename, or not at all, so a killed call can simply
// be repeated.
// WS2. A source is only read. A root commit made here has a fixed date and author, so that the same
// content gives the same SHA.

const mainRef = "refs/heads/main";
const rootDate = new Date("2000-01-01T00:00:00Z");

export interface SourceContext {
  readonly git: Git;
  readonly scratch: ScratchFolders;
  /** Wavesmith's data directory, which is left out of a source that contains it. */
  readonly dataDir: string;
  /** The environment in which git reaches a URL. */
  credentials(url: string): Promise<Readonly<Record<string, string>>>;
}

export interface PrepareContext extends SourceContext {
  /** The authority's path. */
  readonly gitDir: string;
  crashPoint(name: string): Promise<void>;
}

/** Creates the authority with its `main`, or keeps the existing one. Returns main's SHA. */
export async function prepareAuthority(context: PrepareContext, source: Plan["source"]): Promise<Sha> {
  const { git, gitDir, scratch } = context;
  const existingMain = await findMain(git, gitDir);
  if (existingMain !== null) return existingMain;
  await scratch.use(async (folder) => {
    const newGitDir = join(folder, "authority.git");
    await initAuthority(git, newGitDir);
    const main = await readSource(context, newGitDir, source);
    await git.run(["update-ref", mainRef, main], { gitDir: newGitDir });
    await context.crashPoint("prepare.made");
    await rename(newGitDir, gitDir).catch((error) => {
      // Another process was first, and its authority stays.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    await syncFolder(dirname(gitDir));
  });
  const main = await findMain(git, gitDir);
  if (main === null) throw new WavesmithError("git", `the repository ${gitDir} was created but does not exist`);
  return main;
}

/** Returns the authority's main, or null if there is no authority yet. */
export async function findMain(git: Git, gitDir: string): Promise<Sha | null> {
  if ((await stat(gitDir).catch(() => null)) === null) return null; // absent: it has yet to be created
  const main = await resolveCommit(git, gitDir, mainRef);
  if (main !== null) return main;
  throw new WavesmithError("git", `the repository ${gitDir} has no main`, {
    remedy: "put its refs/heads/main back, or move the folder away to start the project again",
  });
}

/** Creates an empty authority. */
export async function initAuthority(git: Git, gitDir: string): Promise<void> {
  const args = ["init", "-q", "--bare", "--template=", "--object-format=sha1", "--initial-branch=main", gitDir];
  await git.run(args);
  await mkdir(join(gitDir, "info"), { recursive: true });
  // A tree's attributes must not change a merge or an import.
  await writeFile(join(gitDir, "info", "attributes"), exactBytes.replace("\n", " !merge\n"));
}

/**
 * Brings a source into one of our repositories, under no ref, and returns its commit. A plain
 * folder has the same commit as long as its files are the same. Fails with `unsupported` for
 * submodules and LFS.
 */
export async function readSource(context: SourceContext, gitDir: string, source: Plan["source"]): Promise<Sha> {
  const commit = await readCommit(context, gitDir, source);
  await refuseUnsupported(context.git, gitDir, commit);
  return commit;
}

async function readCommit(context: SourceContext, gitDir: string, source: Plan["source"]): Promise<Sha> {
  const { git } = context;
  if (source.kind === "git") {
    const env = await context.credentials(source.url);
    return fetchSource(git, gitDir, { from: source.url, ref: source.ref ?? "HEAD", env });
  }
  if (source.kind === "repository" && source.commit !== null) {
    return fetchSource(git, gitDir, { from: source.gitDir, ref: source.commit });
  }
  if (source.kind !== "path") return rootCommit(git, gitDir, await emptyTree(git, gitDir));
  const path = resolve(source.path);
  const stats = await stat(path).catch(() => null); // absent or unreadable: reported below
  if (!stats?.isDirectory()) {
    throw new WavesmithError("not-found", `source: there is no folder ${path}`, {
      remedy: "correct source.path in the plan",
    });
  }
  if (await isRepository(path)) return fetchSource(git, gitDir, { from: path, ref: "HEAD" });
  return rootCommit(git, gitDir, await importFolder(context, gitDir, path));
}

export async function isRepository(path: string): Promise<boolean> {
  const has = async (name: string) => (await lstat(join(path, name)).catch(() => null)) !== null; // absent is an answer
  return (await has(".git")) || ((await has("HEAD")) && (await has("objects")) && (await has("refs")));
}

function emptyTree(git: Git, gitDir: string): Promise<Sha> {
  return git.text(["hash-object", "-t", "tree", "-w", "--stdin"], { gitDir, input: "" });
}

const rootCommit = (git: Git, gitDir: string, tree: Sha): Promise<Sha> => commitFolder(git, gitDir, { tree });

/** Commits a folder's tree, on top of the commit of an earlier reading if one is given. */
export async function commitFolder(
  git: Git,
  gitDir: string,
  { tree, before }: { tree: Sha; before?: Sha },
): Promise<Sha> {
  const env = identityEnvironment(wavesmithIdentity, rootDate);
  const args = ["commit-tree", tree, ...(before === undefined ? [] : ["-p", before])];
  return assertSha(await git.text(args, { gitDir, env, input: before === undefined ? "Begin\n" : "Update\n" }));
}

async function fetchSource(
  git: Git,
  gitDir: string,
  source: { from: string; ref: string; env?: Readonly<Record<string, string>> },
): Promise<Sha> {
  const { from, ref, env = {} } = source;
  if (ref.startsWith("-") || /[\x00-\x20:^~?*[\\]/.test(ref)) {
    throw new WavesmithError("usage", `source: ${JSON.stringify(ref)} is not a branch, tag or commit`);
  }
  // Its own for each call, because several commands may read a source at once.
  const incoming = `refs/wavesmith/incoming/${randomBytes(8).toString("hex")}`;
  const args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--end-of-options"];
  const result = await git.run([...args, from, `+${ref}:${incoming}`], { gitDir, env, answers: [0, 1, 128] });
  const commit = await resolveCommit(git, gitDir, incoming);
  if (result.exitCode !== 0 || commit === null) throw sourceFailure(source, result.stderr);
  await git.run(["update-ref", "-d", incoming], { gitDir });
  return commit;
}

function sourceFailure(source: { from: string; ref: string }, stderr: string): WavesmithError {
  const place = `source: ${source.from}`;
  if (/shallow/.test(stderr)) {
    return new WavesmithError("unsupported", `${place} is a shallow clone, whose history is cut off`, {
      remedy: `git -C ${source.from} fetch --unshallow`,
    });
  }
  if (/couldn't find remote ref/.test(stderr)) {
    const lack = source.ref === "HEAD" ? "has no commit" : `has no ${source.ref}`;
    return new WavesmithError("not-found", `${place} ${lack}`, {
      remedy: "commit something there, or correct source in the plan",
    });
  }
  return new WavesmithError("git", `${place} could not be fetched: ${stderr.trim()}`, { retryable: true });
}

/** Makes a tree of a plain folder's files, obeying its .gitignore. */
async function importFolder(context: SourceContext, gitDir: string, path: string): Promise<Sha> {
  const { git, scratch, dataDir } = context;
  const inside = relative(path, dataDir);
  const own = inside !== "" && !inside.startsWith("..") ? `/${inside.replace(/[\\*?[\]!# ]/g, "\\$&")}/\n` : "";
  return scratch.use(async (folder) => {
    const rules = join(folder, "exclude");
    await writeFile(rules, `${excludeRules([".wavesmith", ...dependencyFolders])}${own}`);
    const env = { GIT_WORK_TREE: path, GIT_INDEX_FILE: join(folder, "index"), GIT_LITERAL_PATHSPECS: "0" };
    const options = { gitDir, cwd: path, env, config: [`core.excludesFile=${rules}`] };
    await git.run(["add", "-A", "."], options).catch((cause) => {
      throw new WavesmithError("git", `source: the folder ${path} could not be read: ${messageOf(cause)}`, { cause });
    });
    return assertSha(await git.text(["write-tree"], options));
  });
}

/** Rejects submodules and LFS files, which would be silently empty in every tree. */
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

function unsupported(description: string): WavesmithError {
  return new WavesmithError("unsupported", `source: ${description}, which is not supported yet`, {
    remedy: "start from a copy without it",
  });
}
