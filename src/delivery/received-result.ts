import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { OwnRepository } from "./own-repository.ts";

/**
 * Puts the result of a server's build, a git bundle of main, into a bare repository inside the
 * person's git folder, and returns its path. It takes the place of the server's repository, and so
 * records deliveries, too. It is removed with the person's repository, or by hand.
 */
export async function receiveResult(
  { git }: OwnRepository,
  projectId: string,
  bundle: AsyncIterable<Uint8Array>,
): Promise<string> {
  const common = await git.text(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
  const authority = join(common, "wavesmith", `${projectId}.git`);
  await git.run(["init", "-q", "--bare", "--template=", authority]);
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-result-"));
  try {
    const file = join(folder, "result.bundle");
    await pipeline(bundle, createWriteStream(file));
    const fetched = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", file];
    await git.run(["--git-dir", authority, ...fetched, "+refs/heads/main:refs/heads/main"]);
    return authority;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
