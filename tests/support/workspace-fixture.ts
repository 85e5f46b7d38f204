import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { ProjectId } from "../../src/domain/ids.ts";
import type { JoinBranch, JoinRequest, KeepRequest, Reuse, Sha, Workspace } from "../../src/workspace/port.ts";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import { createFakeGuest, type FakeGuest } from "./fake-guest.ts";

export const project = "proj_test" as ProjectId;
export const someDate = new Date("2026-03-04T05:06:07Z");
export const author = { name: "backend", email: "backend@wavesmith.invalid" };

export type Files = Readonly<Record<string, string | null>>;

export interface WorkspaceFixture {
  readonly workspace: Workspace;
  readonly guest: FakeGuest;
  readonly dataDir: string;
  /** A folder for sources and the like. */
  readonly folder: string;
  /** Git in the authority. */
  git(...args: string[]): string;
  /** The absolute path of something on the volume. */
  at(...path: string[]): string;
  /** Commits these files (null: removed) on top of `parent`, in the authority. */
  commit(parent: Sha | null, files: Files): Sha;
  /** The files of a commit with their text. */
  filesOf(sha: Sha): Record<string, string>;
  open(treePath: string, sha: Sha, reuse?: Reuse): Promise<void>;
  keep(treePath: string, base: Sha, more?: Partial<KeepRequest>): ReturnType<Workspace["keepTree"]>;
  join(base: Sha, branches: readonly JoinBranch[], more?: Partial<JoinRequest>): ReturnType<Workspace["join"]>;
  dispose(): Promise<void>;
}

/** Creates a workspace with an empty project in a temporary folder, and a volume. */
export async function createWorkspaceFixture(
  options: { crashPoint?: (name: string) => void; prepared?: boolean } = {},
): Promise<WorkspaceFixture> {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-workspace-"));
  const dataDir = join(folder, "data");
  const workspace = createWorkspace({
    dataDir,
    env: process.env,
    ...(options.crashPoint && { crashPoint: options.crashPoint }),
  });
  const guest = await createFakeGuest();
  if (options.prepared !== false) await workspace.prepare(project, { kind: "empty" }, someDate);
  const git = (...args: string[]) => gitIn(workspace.repositoryPath(project), ...args);
  return {
    workspace,
    guest,
    dataDir,
    folder,
    git,
    at: (...path) => join(guest.root, ...path),
    commit: (parent, files) => commitIn(workspace.repositoryPath(project), { parent, files, scratch: folder }),
    filesOf: (sha) => filesOf(workspace.repositoryPath(project), sha),
    open: (treePath, sha, reuse = false) => workspace.openTree({ projectId: project, guest, treePath, sha, reuse }),
    keep: (treePath, base, more = {}) =>
      workspace.keepTree({
        projectId: project,
        guest,
        treePath,
        base,
        message: "Work\n\nTask: api\n",
        author,
        date: someDate,
        ref: `refs/heads/wavesmith/${treePath}`,
        ...more,
      }),
    join: (base, branches, more = {}) =>
      workspace.join({
        projectId: project,
        base,
        branches,
        generated: [],
        date: someDate,
        author,
        message: (branch) => `Join ${branch.taskKey}`,
        ...more,
      }),
    dispose: async () => {
      await guest.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const testEnvironment = {
  PATH: process.env.PATH,
  HOME: tmpdir(),
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Someone",
  GIT_AUTHOR_EMAIL: "someone@example.invalid",
  GIT_AUTHOR_DATE: "@1700000000 +0000",
  GIT_COMMITTER_NAME: "Someone",
  GIT_COMMITTER_EMAIL: "someone@example.invalid",
  GIT_COMMITTER_DATE: "@1700000000 +0000",
};

/** Runs git in a folder, as a person would. */
export function gitIn(folder: string, ...args: string[]): string {
  const options = {
    cwd: folder,
    env: testEnvironment,
    stdio: ["ignore", "pipe", "pipe"] as ["ignore", "pipe", "pipe"],
  };
  return execFileSync("git", args, { ...options, encoding: "utf8", maxBuffer: 1 << 28 }).replace(/\n$/, "");
}

/** Writes files below a folder; null removes one. */
export function writeFiles(folder: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    if (text === null) {
      rmSync(join(folder, path), { recursive: true, force: true });
      continue;
    }
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

function commitIn(gitDir: string, of: { parent: Sha | null; files: Files; scratch: string }): Sha {
  const index = join(mkdtempSync(join(of.scratch, "index-")), "index");
  const run = (args: string[], input = "") =>
    execFileSync("git", args, {
      env: { ...testEnvironment, GIT_DIR: gitDir, GIT_INDEX_FILE: index },
      input,
      encoding: "utf8",
    }).trim();
  if (of.parent !== null) run(["read-tree", of.parent]);
  for (const [path, text] of Object.entries(of.files)) {
    if (text === null) run(["update-index", "-z", "--index-info"], `0 ${"0".repeat(40)}\t${path}\0`);
    else
      run([
        "update-index",
        "--add",
        "--replace",
        "--cacheinfo",
        `100644,${run(["hash-object", "-w", "--stdin"], text)},${path}`,
      ]);
  }
  return run(["commit-tree", run(["write-tree"]), ...(of.parent === null ? [] : ["-p", of.parent]), "-m", "Change"]);
}

function filesOf(gitDir: string, sha: Sha): Record<string, string> {
  const names = gitIn(gitDir, "ls-tree", "-r", "-z", "--name-only", sha)
    .split("\0")
    .filter((name) => name !== "");
  return Object.fromEntries(
    names.map((name) => [
      name,
      execFileSync("git", ["cat-file", "blob", `${sha}:${name}`], { cwd: gitDir, encoding: "utf8" }),
    ]),
  );
}
