import { realpathSync } from "node:fs";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { resultBranch } from "../../domain/refs/result-branch.ts";
import type { Context } from "../context.ts";
import { count, shortSha } from "../output/format.ts";
import { type Delivery, deliveryParts, type OwnRepository, ownRepositoryAt } from "../parts/repository.ts";
import type { Line } from "../view/line.ts";

export interface DeliverOptions {
  /** Default: `wavesmith/` and the project's name. */
  readonly branch?: string | undefined;
  /** One commit by the person instead of the history. */
  readonly squash: boolean;
  /** The person is the committer of every commit. */
  readonly asMe: boolean;
}

/** A build whose result is to be put on a branch. */
export interface Deliverable {
  readonly context: Context;
  readonly view: BuildView;
  /** Returns the path of the authority, or of what stands for it on this machine. */
  authority(repository: OwnRepository): Promise<string>;
  /** The build is on a server: the branch goes to the repository in which the command is typed. */
  readonly isElsewhere?: boolean;
}

export interface Delivered extends Delivery {
  readonly next: { readonly look: string; readonly merge: string; readonly pullRequest: string | null };
  readonly lines: readonly Line[];
}

/**
 * Puts a build's result on a branch of the person's repository: the one it was built from, or else
 * the one in which the command is typed. Safe to call again. Fails with `conflict` or `not-found`.
 */
export async function deliverBuild(deliverable: Deliverable, options: DeliverOptions): Promise<Delivered> {
  const { context, view } = deliverable;
  const { build } = view;
  if (build.headSha === null || !view.waves.some(({ status }) => status === "passed")) {
    throw new WavesmithError("not-found", `build ${build.id} has nothing to deliver: no wave of it has passed`, {
      remedy: context.hints.command(`status ${build.id}`),
    });
  }
  const repository = await repositoryFor(deliverable);
  const { deliverBranch, nextCommands } = await deliveryParts();
  const branch = options.branch ?? resultBranch(view.project);
  const delivery = await deliverBranch({
    repository,
    authority: await deliverable.authority(repository),
    result: build.headSha,
    branch,
    squash: options.squash ? squashMessage(view) : null,
    asMe: options.asMe,
    date: build.endedAt ?? build.createdAt,
  });
  const { source } = build.plan;
  const base = source.kind === "repository" && deliverable.isElsewhere !== true ? source.branch : repository.branch;
  const here = `${realpathSync(process.cwd())}/`.startsWith(`${repository.root}/`);
  const next = await nextCommands(repository, { branch, base, here });
  return { ...delivery, next, lines: deliveryLines(deliverable, delivery, next) };
}

/** The lines about the branch at the end of a build. */
export interface AtEnd {
  /** Null when it was delivered before. */
  readonly delivered: Delivered | null;
  readonly lines: readonly Line[];
}

/**
 * Delivers a completed build to the repository that it was built from, unless that was done before.
 * Returns null when there is nothing to do. A failure is a warning, because the build is completed.
 */
export async function deliverAtEnd(deliverable: Deliverable): Promise<AtEnd | null> {
  const { context, view } = deliverable;
  const { build } = view;
  if (!isForOwnRepository(view)) return null;
  try {
    const before = await deliveredBefore(deliverable);
    if (before !== null) return { delivered: null, lines: before };
    const delivered = await deliverBuild(deliverable, { squash: false, asMe: false });
    return { delivered, lines: delivered.lines };
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    const remedy = error.remedy === null ? "" : ` (${error.remedy})`;
    context.warn(`not delivered: ${messageOf(error)}${remedy}. Then: ${context.hints.command(`deliver ${build.id}`)}`);
    return null;
  }
}

/**
 * Whether a completed build changed something that a branch of the person's repository should have.
 */
const isForOwnRepository = ({ build: { status, plan, headSha } }: BuildView): boolean =>
  status === "completed" && plan.source.kind === "repository" && headSha !== null && headSha !== plan.source.commit;

/**
 * Says where a completed build was delivered before; null if it was not, or its repository is gone.
 */
export async function deliveredBefore(deliverable: Deliverable): Promise<readonly Line[] | null> {
  const { view } = deliverable;
  const { headSha: result } = view.build;
  if (!isForOwnRepository(view) || result === null) return null;
  const repository = await repositoryFor(deliverable).catch((error: unknown) => {
    if (error instanceof WavesmithError) return null;
    throw error;
  });
  if (repository === null) return null;
  const { wasDelivered } = await deliveryParts();
  const branch = resultBranch(view.project);
  const authority = await deliverable.authority(repository);
  if (!(await wasDelivered(repository, { authority, branch, result }))) return null;
  return [{ tone: "plain", text: `delivered to the branch ${branch} in ${repository.root}` }];
}

async function repositoryFor({ context, view, isElsewhere = false }: Deliverable): Promise<OwnRepository> {
  const { source } = view.build.plan;
  const folder = source.kind === "repository" && !isElsewhere ? source.root : process.cwd();
  const found = await ownRepositoryAt(folder, context.environment).catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "environment") throw error;
    return null; // The folder is gone.
  });
  if (found !== null) return found;
  throw new WavesmithError("not-found", `${folder} is not in a git repository, so there is nowhere to deliver to`, {
    remedy: "run it inside the repository that should get the branch",
  });
}

function squashMessage({ build, tasks }: BuildView): string {
  const done = tasks.filter((task) => task.status === "completed");
  const titles = done.map((task) => `- ${task.definition.title}`);
  return `${build.plan.name}: ${count(done.length, "task")}\n\n${titles.join("\n")}\n\nWavesmith-Build: ${build.id}\n`;
}

const outcomes: Readonly<Record<Delivery["outcome"], string>> = {
  created: "is new",
  moved: "has moved",
  unchanged: "is there already",
  contained: "already has all of it, and later commits",
};

function deliveryLines({ context, view: { build } }: Deliverable, delivery: Delivery, next: Delivered["next"]): Line[] {
  const { root, branch, commit, outcome } = delivery;
  const { source } = build.plan;
  const first = `branch ${branch} in ${root} ${outcomes[outcome]}: ${shortSha(commit)}`;
  const work =
    "  its first commit is your uncommitted work: git stash --include-untracked before you merge; the merge brings it back";
  const only = `  without those: ${context.hints.command(`deliver ${build.id} --branch NAME`)}`;
  return [
    { tone: "strong", text: first },
    ...(outcome === "contained" ? [{ tone: "plain" as const, text: only }] : []),
    { tone: "plain", text: `  look:  ${next.look}` },
    { tone: "plain", text: `  merge: ${next.merge}` },
    ...(next.pullRequest === null ? [] : [{ tone: "plain" as const, text: `  pull request: ${next.pullRequest}` }]),
    ...(source.kind === "repository" && source.uncommitted ? [{ tone: "warn" as const, text: work }] : []),
  ];
}
