import { WavesmithError } from "../domain/errors.ts";
import type { OwnGit } from "./own-git.ts";
import { commitOf, type OwnRepository } from "./own-repository.ts";

// Commits under the person's own name, made only if they asked for them. Dates are fixed, so that
// making a commit again gives the same SHA.

/** Returns the person's `Name <email>`. Fails with `usage` when git knows none. */
async function ownIdentity(git: OwnGit): Promise<string> {
  const args = ["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"];
  const { exitCode, stdout } = await git.run(args, { answers: [0, 128] });
  const [, who] = /^(.* <[^>]*>) \d+ /.exec(stdout.toString("utf8")) ?? [];
  if (exitCode === 0 && who !== undefined) return who;
  throw new WavesmithError("usage", "git does not know who you are", {
    remedy: 'git config --global user.name "Your Name" && git config --global user.email you@example.com',
  });
}

const stamp = (date: Date): string => `${Math.floor(date.getTime() / 1000)} +0000`;

/**
 * Makes one commit, by the person, of all changes from their checkout to the result. Fails with
 * `conflict` if there are none.
 */
export async function squash(
  { git, root }: OwnRepository,
  { result, message, date }: { result: string; message: string; date: Date },
): Promise<string> {
  const who = await ownIdentity(git);
  const head = await commitOf(git, "HEAD");
  const base = head === null ? null : await git.text(["merge-base", head, result], { answers: [0, 1] });
  if (base === result) {
    throw new WavesmithError("conflict", `${root} has all of ${result.slice(0, 12)} in what is checked out already`);
  }
  if (base === "") {
    throw new WavesmithError("conflict", `${root} shares no history with ${result.slice(0, 12)}`, {
      remedy: "deliver it without --squash",
    });
  }
  const tree = await git.text(["rev-parse", `${result}^{tree}`]);
  const parents = base === null ? [] : [`parent ${base}`];
  const header = [`tree ${tree}`, ...parents, `author ${who} ${stamp(date)}`, `committer ${who} ${stamp(date)}`];
  return writeCommit(git, Buffer.from(`${header.join("\n")}\n\n${message.trimEnd()}\n`));
}

/** Makes the commits of a result again with the person as committer; authors and dates stay. */
export async function commitAs({ git, head }: OwnRepository, result: string): Promise<string> {
  const who = await ownIdentity(git);
  const not = head === null ? [] : [`^${head}`];
  const listed = await git.text(["rev-list", "--topo-order", "--reverse", result, ...not]);
  const made = new Map<string, string>();
  for (const sha of listed.split("\n").filter((line) => line !== "")) {
    const { stdout } = await git.run(["cat-file", "commit", sha]);
    made.set(sha, await writeCommit(git, withCommitter(stdout, who, made)));
  }
  return made.get(result) ?? result;
}

/** Header lines are ASCII but for names, and messages are any bytes, so they stay bytes. */
function withCommitter(commit: Buffer, who: string, made: ReadonlyMap<string, string>): Buffer {
  const end = commit.indexOf("\n\n");
  const lines = commit.subarray(0, end).toString("latin1").split("\n");
  const header = lines.flatMap((line) => {
    if (line.startsWith("parent ")) return [`parent ${made.get(line.slice(7)) ?? line.slice(7)}`];
    const when = /^committer .* (\d+ [+-]\d{4})$/.exec(line)?.[1];
    return when === undefined ? [line] : [`committer ${Buffer.from(who).toString("latin1")} ${when}`];
  });
  return Buffer.concat([Buffer.from(header.join("\n"), "latin1"), commit.subarray(end)]);
}

async function writeCommit(git: OwnGit, commit: Buffer): Promise<string> {
  return git.text(["hash-object", "-t", "commit", "-w", "--stdin"], { input: commit });
}
