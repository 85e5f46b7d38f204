// Gives commands access to the person's own repository. Like an entry point, it may import
// everything. It loads each part when a command needs it.

import type { RequestedRepository } from "../../coordinator/build/request/build-request.ts";
import type { OwnRepository } from "../../delivery/own-repository.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { count } from "../output/format.ts";

export type { Delivery } from "../../delivery/deliver-branch.ts";
export type { OwnRepository } from "../../delivery/own-repository.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Finds the repository that a folder is in; null when it is in none. */
export async function ownRepositoryAt(folder: string, environment: Environment): Promise<OwnRepository | null> {
  const { findOwnRepository } = await import("../../delivery/own-repository.ts");
  return findOwnRepository(folder, environment);
}

/** Loads what puts a branch into a person's repository. */
export async function deliveryParts() {
  const [branch, commands, received] = await Promise.all([
    import("../../delivery/deliver-branch.ts"),
    import("../../delivery/next-commands.ts"),
    import("../../delivery/received-result.ts"),
  ]);
  return { ...branch, ...commands, ...received };
}

export interface UncommittedChoice {
  /** Uncommitted work is part of the source. */
  readonly include: boolean;
  /** Uncommitted work is left out. */
  readonly ignore: boolean;
  /** Absolute paths of files that do not count as work, such as the plan's. */
  readonly except: ReadonlySet<string>;
}

/**
 * Returns a repository as the source of a build. Fails with `usage` when nobody said what to do
 * with its uncommitted work, and with `unsupported` when no build can begin from it.
 */
export async function repositoryAsSource(
  repository: OwnRepository,
  choice: UncommittedChoice,
): Promise<{ source: RequestedRepository; leftOut: number }> {
  const { root, gitDir, head, branch } = repository;
  const { refuseUnusable } = await import("../../delivery/own-repository.ts");
  const { commitUncommitted, listUncommitted } = await import("../../delivery/uncommitted.ts");
  await refuseUnusable(repository);
  const files = await listUncommitted(repository, choice.except);
  const source = { root, gitDir, branch, commit: head, uncommitted: false };
  if (files.length === 0) return { source, leftOut: 0 };
  if (choice.ignore) return { source, leftOut: files.length };
  if (choice.include) {
    return { source: { ...source, commit: await commitUncommitted(repository), uncommitted: true }, leftOut: 0 };
  }
  const shown = files.slice(0, 5).map(({ state, path }) => `\n  ${state.padEnd(2)} ${path}`);
  const more = files.length > shown.length ? `\n  and ${files.length - shown.length} more` : "";
  throw new WavesmithError(
    "usage",
    `${root} has ${count(files.length, "uncommitted file")}, which agents would not see:${shown.join("")}${more}`,
    { remedy: "commit them, or build with --include-uncommitted, or leave them out with --ignore-uncommitted" },
  );
}
