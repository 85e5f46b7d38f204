import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import type { Sha } from "../port.ts";
import type { ScratchFolders } from "../trees/scratch.ts";
import { bundleHeader } from "./bundle.ts";
import type { Git } from "./git.ts";

// A source travels to a server as a bundle of one branch. There it becomes a separate repository,
// from which a build reads it like any other source: git checks every object then.

const branch = "refs/heads/main";

/** Writes main with its history to a bundle. */
export async function bundleMain(git: Git, gitDir: string, file: string): Promise<void> {
  await git.run(["bundle", "create", "-q", file, branch], { gitDir });
}

/** Writes a commit with its history to a bundle, in which it is the branch main. */
export async function bundleCommit(
  git: Git,
  gitDir: string,
  bundle: { readonly sha: Sha; readonly file: string },
): Promise<void> {
  const file = await open(bundle.file, "wx", 0o600);
  try {
    await file.write(bundleHeader(bundle.sha, [], branch));
    const args = ["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"];
    await git.run(args, { gitDir, input: `${bundle.sha}\n`, outputFd: file.fd });
  } finally {
    await file.close();
  }
}

/**
 * Creates the repository `to` from a bundle that `bundleMain` wrote; an existing one stays
 * unchanged. Fails with `usage` for anything else.
 */
export async function unpackUpload(
  git: Git,
  scratch: ScratchFolders,
  upload: { file: string; to: string },
): Promise<void> {
  await scratch.use(async (folder) => {
    const gitDir = join(folder, "upload.git");
    await git.run(["init", "-q", "--bare", "--template=", "--object-format=sha1", "--initial-branch=main", gitDir]);
    const args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--end-of-options", upload.file];
    const fetched = await git.run([...args, `+${branch}:${branch}`], { gitDir, answers: [0, 1, 128] });
    if (fetched.exitCode !== 0) {
      throw new WavesmithError("usage", "the body is not a git bundle with the branch main and all of its history", {
        remedy: "git bundle create source.bundle main",
      });
    }
    await rename(gitDir, upload.to).catch((error: NodeJS.ErrnoException) => {
      // The same source was uploaded before.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  });
}
