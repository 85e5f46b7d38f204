import { execFileSync } from "node:child_process";
import { chmodSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { createRandom, type Random } from "./random-plan.ts";

// Turns a git history into a plan: one task per commit, whose script applies the commit's changes.
// Whatever the order of waves, the joined tree must equal the last commit's, bit for bit.

const env = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_AUTHOR_DATE: "2026-01-02T03:04:05Z",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.com",
  GIT_COMMITTER_DATE: "2026-01-02T03:04:05Z",
};

export function git(repository: string, ...args: string[]): Buffer {
  const safe = ["-c", `safe.directory=${repository}`];
  return execFileSync("git", [...safe, "-C", repository, ...args], {
    env,
    maxBuffer: 1 << 30,
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** First-parent commits up to HEAD, oldest first. */
export function firstParents(repository: string): string[] {
  return git(repository, "rev-list", "--first-parent", "--reverse", "HEAD").toString().split("\n").filter(Boolean);
}

export interface HistoryOptions {
  /** The commits to turn into tasks, oldest first. */
  readonly commits: readonly string[];
  /** The commit that the first one is applied to; null: none. */
  readonly from: string | null;
  /** Whether each task depends on the one before, or only on those that touched the same paths. */
  readonly dependencies: "chain" | "touched";
}

/** The plan, after which main has the tree of the last commit. */
export function historyPlan(repository: string, options: HistoryOptions): Record<string, unknown> {
  const touched: string[][] = [];
  const tasks = options.commits.map((commit, index) => {
    const base = index === 0 ? options.from : options.commits[index - 1]!;
    touched.push(touchedPaths(repository, base, commit));
    const earlier = options.dependencies === "chain" ? [index - 1] : related(touched, index);
    return {
      id: taskId(index),
      title: `Commit ${commit.slice(0, 12)}`,
      dependsOn: earlier.filter((at) => at >= 0).map(taskId),
      ...work(diff(repository, base, commit)),
      retries: 0,
    };
  });
  return {
    limits: { maxParallelTasks: 3 },
    agents: { patcher: { runtime: "command", command: patcher } },
    gates: { testing: false, critic: false, integration: false },
    ...(options.from === null ? {} : { source: { git: repository, ref: options.from } }),
    tasks,
  };
}

const taskId = (index: number): string => `c${String(index + 1).padStart(3, "0")}`;
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

function diff(repository: string, base: string | null, commit: string): Buffer {
  const exact = ["--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];
  return git(repository, "diff-tree", "-p", "-r", ...exact, base ?? emptyTree, commit);
}

function touchedPaths(repository: string, base: string | null, commit: string): string[] {
  const names = git(repository, "diff-tree", "-r", "-z", "--name-only", "--no-renames", base ?? emptyTree, commit);
  return names.toString("latin1").split("\0").filter(Boolean);
}

/**
 * Earlier commits that touched one of this commit's paths, or a path that conflicts with one, such
 * as a folder and a file of the same name.
 */
function related(touched: readonly (readonly string[])[], index: number): number[] {
  const own = touched[index]!;
  const meets = (one: string, other: string): boolean =>
    one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
  return touched
    .slice(0, index)
    .flatMap((paths, at) => (paths.some((path) => own.some((mine) => meets(path, mine))) ? [at] : []));
}

// With --index an ignored file counts as added, as with `git add -f`.
const apply = "gzip -d | git apply --index --whitespace=nowarn -";
const patcher = `cat > /dev/null
node -e 'process.stdout.write(JSON.parse(require("fs").readFileSync(process.env.WAVESMITH_TASK_FILE, "utf8")).task.instructions)' | base64 -d | ${apply}`;
const longestScript = 100 * 1024;

/**
 * The patch is in the script or, if that would be too long for an argument, in an agent's
 * instructions.
 */
function work(patch: Buffer): Record<string, unknown> {
  if (patch.length === 0) return { run: "true" };
  const packed = gzipSync(patch).toString("base64");
  if (packed.length > longestScript) return { agent: "patcher", instructions: packed };
  return { agent: "default", run: `base64 -d <<'PATCH' | ${apply}\n${packed}\nPATCH` };
}

const oddNames = [
  "plain.txt",
  "with space.txt",
  "ünïcödé/日本 語.txt",
  "quo\"te'd.txt",
  "back\\slash.txt",
  "tab\tbed.txt",
  "new\nline.txt",
  "-dash.txt",
  "glob*?[x]{a,b}!.txt",
  "trailing space ",
  "a=b;$(c)`d`&.txt",
  ":colon/:(top)",
  "~tilde^caret..dots@{0}",
  ".hidden/.file",
  "deep/er/and/deeper/still/file",
  "UPPER.TXT",
  "upper.txt",
  "src/node_modules/kept.js",
  "build/out.log",
  "\ufeffbom.txt",
];

/**
 * Creates a repository whose history has everything that git supports and people seldom think of.
 */
export function makeOddHistory(seed: number, folder: string, length: number): string[] {
  const random = createRandom(seed);
  mkdirSync(folder, { recursive: true });
  git(folder, "init", "-q", "--initial-branch=main", "--template=");
  mkdirSync(join(folder, ".git/info"), { recursive: true });
  // These settings, not a file's attributes, decide its bytes.
  writeFileSync(join(folder, ".git/info/attributes"), "* -text !eol !ident !filter !working-tree-encoding\n");
  const files = new Set<string>();
  for (let index = 0; index < length; index += 1) {
    if (index === 0) startOddly(folder, files);
    else if (!random.chance(0.05))
      for (let edits = random.between(1, 3); edits > 0; edits -= 1) edit(random, folder, files);
    git(folder, "add", "-A", "-f");
    git(folder, "commit", "-q", "--allow-empty", "--no-gpg-sign", "-m", `Commit ${index + 1}`);
  }
  return firstParents(folder);
}

/** Rules that would change or hide files if they were followed. */
function startOddly(folder: string, files: Set<string>): void {
  put(folder, files, ".gitignore", "*.log\nbuild/\n");
  put(folder, files, ".gitattributes", "*.txt text eol=crlf ident\n*.bin -text\n*.js export-ignore filter=lost\n");
  put(folder, files, "plain.txt", "one\ntwo\n$Id$\nthree\n");
  // A name that is not valid UTF-8.
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from("caf\xe9.txt", "latin1")]), "old name\n");
}

function put(folder: string, files: Set<string>, path: string, data: string | Buffer): void {
  clear(folder, files, path);
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), data);
  files.add(path);
}

/** Removes whatever is where a file, or a folder above it, should be. */
function clear(folder: string, files: Set<string>, path: string): void {
  for (const other of [...files]) {
    if (other !== path && !other.startsWith(`${path}/`) && !path.startsWith(`${other}/`)) continue;
    rmSync(join(folder, other), { force: true });
    files.delete(other);
  }
  rmSync(join(folder, path), { recursive: true, force: true });
}

function edit(random: Random, folder: string, files: Set<string>): void {
  const known = [...files].filter((path) => !path.startsWith(".git"));
  const target = known.length > 0 && random.chance(0.6) ? random.pick(known) : random.pick(oddNames);
  const kind = random.pick([
    "text",
    "text",
    "binary",
    "mode",
    "link",
    "delete",
    "rename",
    "folder",
    "empty",
    "crlf",
    "large",
  ]);
  const at = join(folder, target);
  const isFile = files.has(target) && lstatSync(at).isFile();
  switch (kind) {
    case "mode":
      if (isFile) chmodSync(at, lstatSync(at).mode & 0o100 ? 0o644 : 0o755);
      return;
    case "delete":
      if (known.length > 3) clear(folder, files, target);
      return;
    case "rename":
      if (files.has(target)) move(random, folder, files, target);
      return;
    case "link":
      clear(folder, files, target);
      mkdirSync(dirname(at), { recursive: true });
      symlinkSync(random.pick(["plain.txt", "../outside", "/etc/hostname", "dang ling\n", "."]), at);
      files.add(target);
      return;
    case "folder":
      put(folder, files, `${target}/inside ${random.between(1, 9)}.txt`, "in a folder\n");
      return;
    default:
      put(folder, files, target, content(random, kind, isFile ? readFileSync(at) : Buffer.alloc(0)));
  }
}

function move(random: Random, folder: string, files: Set<string>, from: string): void {
  const to = random.chance(0.5) ? `moved/${random.between(1, 99)} ${from.split("/").at(-1)}` : random.pick(oddNames);
  if (to === from || to.startsWith(`${from}/`) || from.startsWith(`${to}/`)) return;
  clear(folder, files, to);
  mkdirSync(dirname(join(folder, to)), { recursive: true });
  renameSync(join(folder, from), join(folder, to));
  files.delete(from);
  files.add(to);
}

function content(random: Random, kind: string, before: Buffer): Buffer {
  const line = (end: string): string => `line ${random.between(0, 1e6)} äöü${end}`;
  switch (kind) {
    case "binary":
      return Buffer.from(Array.from({ length: random.between(1, 4000) }, () => random.between(0, 255)));
    case "empty":
      return Buffer.alloc(0);
    case "crlf":
      return Buffer.from([line("\r\n"), line("\n"), line("\r\n")].join(""));
    case "large":
      // Does not compress well: its patch is longer than an argument may be.
      return Buffer.from(Array.from({ length: 150_000 }, () => random.between(0, 255)));
    default: {
      const lines = before.toString("latin1").split("\n").slice(0, 200);
      lines.splice(random.between(0, lines.length), random.between(0, 2), line(random.chance(0.2) ? "\r" : ""));
      return Buffer.from(lines.join("\n") + (random.chance(0.8) ? "\n" : ""), "latin1");
    }
  }
}
