import { itemAt } from "../domain/known.ts";
import { shellWord } from "../domain/shell-word.ts";
import type { OwnRepository } from "./own-repository.ts";

/** The commands a person may type next, now that the branch exists. */
export interface NextCommands {
  readonly look: string;
  readonly merge: string;
  /** Null without a remote. */
  readonly pullRequest: string | null;
}

/**
 * Returns the commands for a delivered branch. `base` is the branch that the build began from;
 * null: a detached HEAD. `here`: they are typed in the repository.
 */
export async function nextCommands(
  repository: OwnRepository,
  { branch, base, here }: { branch: string; base: string | null; here: boolean },
): Promise<NextCommands> {
  const { root, head } = repository;
  const git = here ? "git" : `git -C ${shellWord(root)}`;
  const name = shellWord(branch);
  const from = base === null ? "HEAD" : shellWord(base);
  const remote = await remoteOf(repository, base);
  return {
    look: head === null ? `${git} log --stat ${name}` : `${git} diff ${from}...${name}`,
    merge: `${git} merge ${name}`,
    pullRequest:
      remote === null
        ? null
        : `${here ? "" : `cd ${shellWord(root)} && `}git push -u ${shellWord(remote.name)} ${name}${requestText(remote.url, name, base)}`,
  };
}

async function remoteOf({ git }: OwnRepository, base: string | null): Promise<{ name: string; url: string } | null> {
  const names = (await git.text(["remote"])).split("\n").filter((line) => line !== "");
  if (names.length === 0) return null;
  const key = `branch.${base ?? ""}.remote`;
  const tracked = base === null ? "" : await git.text(["config", "--get", key], { answers: [0, 1] });
  const name = [tracked, "origin"].find((candidate) => names.includes(candidate)) ?? itemAt(names, 0);
  return { name, url: await git.text(["remote", "get-url", name], { answers: [0, 2] }) };
}

/** The command of the forge's own program; none for a forge without one that we know. */
function requestText(url: string, branch: string, base: string | null): string {
  const onto = base === null ? "" : shellWord(base);
  if (/(^|[/@.])github\.com[:/]/.test(url)) {
    return ` && gh pr create --head ${branch}${onto === "" ? "" : ` --base ${onto}`}`;
  }
  if (!/gitlab/.test(url)) return "";
  return ` && glab mr create --source-branch ${branch}${onto === "" ? "" : ` --target-branch ${onto}`}`;
}
