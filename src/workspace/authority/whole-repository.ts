import { createHash } from "node:crypto";
import { copyFile, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { isRefName } from "../../domain/refs/ref-name.ts";
import { syncFolder } from "./durable.ts";
import { assertSha, createGit, type Git } from "./git.ts";
import { initAuthority } from "./source.ts";

/** The refs of a repository: what each points to, by its full name. */
export type Refs = Readonly<Record<string, string>>;

/** Whole repositories, for backups. The paths are those of bare repositories. */
export interface WholeRepositories {
  /** Returns the ids of the projects that have a repository. */
  projects(): Promise<string[]>;
  readRefs(projectId: string): Promise<Refs>;
  /** Writes everything that these refs reach into a new file. */
  pack(projectId: string, refs: Refs, file: string): Promise<void>;
  /** Returns the size on disk of what these refs alone keep. */
  sizeOf(projectId: string, refs: Refs): Promise<number>;
  /** Removes these refs, each if it still points there. */
  removeRefs(projectId: string, refs: Refs): Promise<void>;
  /** Removes objects that nothing has referred to for a day, and packs the others. */
  prune(projectId: string): Promise<void>;
  /** Creates a project's repository from such a file, after checking each object. */
  create(projectId: string, refs: Refs, file: string): Promise<void>;
}

/** Opens the repositories of a data directory. */
export function openRepositories(
  dataDir: string,
  env: Readonly<Record<string, string | undefined>>,
): WholeRepositories {
  const folder = join(dataDir, "repositories");
  const git = createGit({ home: join(folder, ".home"), env });
  const pathOf = (projectId: string): string => {
    if (/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(projectId)) return join(folder, `${projectId}.git`);
    throw new WavesmithError("usage", `not a project's id: ${JSON.stringify(projectId)}`);
  };
  return {
    async projects() {
      const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return []; // nothing was built yet
        throw error;
      });
      return names.flatMap((name) => /^([A-Za-z0-9][\w-]*)\.git$/.exec(name)?.[1] ?? []).sort();
    },
    readRefs: (projectId) => readRefs(git, pathOf(projectId)),
    async pack(projectId, refs, file) {
      const output = await open(file, "wx", 0o600);
      try {
        const input = [...new Set(Object.values(refs))].map((sha) => `${sha}\n`).join("");
        const args = ["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"];
        await git.run(args, { gitDir: pathOf(projectId), input, outputFd: output.fd });
      } finally {
        await output.close();
      }
    },
    async sizeOf(projectId, refs) {
      const gone = Object.keys(refs);
      if (gone.length === 0) return 0;
      const kept = Object.keys(await readRefs(git, pathOf(projectId))).filter((ref) => refs[ref] === undefined);
      const input = [...gone, ...kept.map((ref) => `^${ref}`)].map((word) => `${word}\n`).join("");
      const args = ["rev-list", "--objects", "--disk-usage", "--stdin"];
      return Number((await git.run(args, { gitDir: pathOf(projectId), input })).stdout.toString().trim());
    },
    async removeRefs(projectId, refs) {
      const input = Object.entries(refs).map(([ref, sha]) => `delete ${ref} ${assertSha(sha)}\n`);
      const args = ["update-ref", "--no-deref", "--stdin"];
      if (input.length > 0) await git.run(args, { gitDir: pathOf(projectId), input: input.join("") });
    },
    async prune(projectId) {
      // Each ref stays a separate file, because we flush the folders of refs by name.
      const config = ["gc.packRefs=false", "gc.writeCommitGraph=false"];
      await git.run(["gc", "--quiet", "--prune=1.day.ago"], { gitDir: pathOf(projectId), config });
    },
    async create(projectId, refs, file) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const gitDir = join(folder, `.restored-${projectId}`);
      await fillNew(git, gitDir, { refs, file });
      await rename(gitDir, pathOf(projectId));
      await syncFolder(folder);
    },
  };
}

/** Makes a repository of a file of `pack`, in place of one that a crash left unfinished. */
async function fillNew(git: Git, gitDir: string, { refs, file }: { refs: Refs; file: string }): Promise<void> {
  await rm(gitDir, { recursive: true, force: true });
  await initAuthority(git, gitDir);
  await indexPack(git, gitDir, file);
  const updates = Object.entries(refs).map(([ref, sha]) => {
    if (!isRefName(ref)) throw new WavesmithError("usage", `not a valid ref name: ${JSON.stringify(ref)}`);
    return `create ${ref} ${assertSha(sha)}\n`;
  });
  await git.run(["update-ref", "--no-deref", "--stdin"], { gitDir, input: updates.join("") });
}

async function readRefs(git: Git, gitDir: string): Promise<Refs> {
  const { stdout } = await git.run(["for-each-ref", "--format=%(objectname) %(refname)"], { gitDir });
  const lines = stdout.toString("utf8").split("\n");
  return Object.fromEntries(lines.flatMap((line) => (line === "" ? [] : [[line.slice(41), line.slice(0, 40)]])));
}

/** Moves a pack into a repository and indexes it there, so that its size does not matter. */
async function indexPack(git: Git, gitDir: string, file: string): Promise<void> {
  const name = createHash("sha1").update(file).digest("hex");
  const path = join(gitDir, "objects", "pack", `pack-${name}.pack`);
  await copyFile(file, path);
  await git.run(["index-pack", "--strict", path], { gitDir });
}
