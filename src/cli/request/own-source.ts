import { realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { RequestedRepository } from "../../coordinator/build/request/build-request.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { Context } from "../context.ts";
import { count, shortSha } from "../output/format.ts";
import { ownRepositoryAt, repositoryAsSource } from "../parts/repository.ts";
import { requireGit } from "../parts.ts";

/** Options of `build` that are about its source. */
export interface SourceOptions {
  readonly includeUncommitted: boolean;
  readonly ignoreUncommitted: boolean;
  /** Merges a source that has moved on since the project read it. */
  readonly updateSource: boolean;
}

export interface OwnSource {
  /** The person's repository; null for another source. */
  readonly repository: RequestedRepository | null;
  /** A message about it before the build starts. */
  readonly lines: readonly string[];
}

interface SourceRequest {
  readonly plan: Pick<Plan, "source">;
  /** The plan file says where the tree starts. */
  readonly isNamed: boolean;
  /** Absolute paths of the plan and the files it reads, which do not count as uncommitted work. */
  readonly planFiles: ReadonlySet<string>;
  readonly options: SourceOptions;
}

/**
 * Finds the person's repository that a build starts from: the current one if the plan names no
 * source, or the one whose top folder the plan names. Fails with `usage` for uncommitted work
 * unless an option says what to do with it.
 */
export async function findOwnSource(context: Context, request: SourceRequest): Promise<OwnSource> {
  const { plan, options, planFiles: except } = request;
  if (options.includeUncommitted && options.ignoreUncommitted) {
    throw new WavesmithError("usage", "--include-uncommitted and --ignore-uncommitted cannot be used together", {
      remedy: "use one of them",
    });
  }
  await requireGit(await context.config());
  const folder = plan.source.kind === "path" ? plan.source.path : request.isNamed ? null : process.cwd();
  if (folder === null) return { repository: null, lines: [] };
  const found = await ownRepositoryAt(folder, context.environment);
  // If the plan names a folder inside a repository, only that folder is the source.
  if (found === null || (request.isNamed && found.root !== realpathSync(folder)))
    return { repository: null, lines: [] };
  const choice = { include: options.includeUncommitted, ignore: options.ignoreUncommitted, except };
  const { source, leftOut } = await repositoryAsSource(found, choice);
  return { repository: source, lines: [sourceLine(source, found.prefix), ...leftOutLines(leftOut)] };
}

function sourceLine({ root, commit, branch, uncommitted }: RequestedRepository, prefix: string): string {
  const where = branch ?? "detached HEAD";
  const at = commit === null ? "without a commit yet" : `at ${shortSha(commit)} (${where})`;
  const work = uncommitted ? ", with your uncommitted work" : "";
  const whole = prefix === "" ? "" : "; it is the whole repository: the plan's paths and commands start at its top";
  return `source ${root} ${at}${work}${whole}`;
}

const leftOutLines = (leftOut: number): string[] =>
  leftOut === 0 ? [] : [`not read: ${count(leftOut, "uncommitted file")}`];

/** The plan file and the files that it reads. */
export function filesOfPlan(file: string, value: unknown): Set<string> {
  const folder = dirname(resolve(file));
  const found = new Set([resolve(file)]);
  const look = (part: unknown): void => {
    if (typeof part !== "object" || part === null) return;
    for (const [key, inner] of Object.entries(part)) {
      if (key === "file" && typeof inner === "string") found.add(resolve(folder, inner));
      else look(inner);
    }
  };
  look(value);
  return new Set([...found, ...[...found].flatMap(realPath)]);
}

/** git names files by their real path. */
function realPath(path: string): string[] {
  try {
    return [realpathSync(path)];
  } catch {
    return []; // It does not exist: the plan's check reports that.
  }
}
