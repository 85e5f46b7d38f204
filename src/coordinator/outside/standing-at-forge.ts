import { WavesmithError } from "../../domain/errors.ts";
import { type StandingRequest, standingFileName } from "../../domain/schedule.ts";
import { ForgeError } from "../../forge/port.ts";
import type { Ports } from "../port.ts";
import { type Standing, standingOf } from "../schedule/standing-request.ts";
import type { PlaceAtForge } from "./at-forge.ts";

const maxFileBytes = 256 * 1024;
const maxPlanBytes = 1024 * 1024;

/** Reads the text of `wavesmith.yaml` of a commit at the forge; null if there is none. */
export const readStandingText = ({ forge, repository }: PlaceAtForge, sha: string): Promise<string | null> =>
  forge.readFile({ repository, sha, path: standingFileName, maxBytes: maxFileBytes });

/**
 * Checks that text, with the plan that it names. Fails with `plan-invalid`, naming every fault with
 * its line.
 */
export const standingAt = (
  ports: Pick<Ports, "environment" | "eventSecrets">,
  { forge, repository }: PlaceAtForge,
  { sha, text }: { sha: string; text: string },
): Promise<Standing> =>
  standingOf(ports, text, (path) => forge.readFile({ repository, sha, path, maxBytes: maxPlanBytes }));

/** The branch of a repository that a build starts from, and delivers to. */
export interface BuiltBranch {
  readonly repository: string;
  readonly gitUrl: string;
  readonly branch: string;
  readonly sha: string;
  /** The pull request that offers the branch; null: it was not asked for in one. */
  readonly request: number | null;
}

/**
 * The data of a request that builds this commit and delivers to its branch. A plan with a `source`
 * or a `deliver.repo` of its own keeps it.
 */
export function requestAt(at: BuiltBranch, request: StandingRequest): Record<string, unknown> {
  const { repository: repo, gitUrl, branch: base, sha, request: number } = at;
  const source = { git: gitUrl, ref: sha };
  const deliver = { forge: "github", repo, base, ...(number === null ? {} : { request: number }) };
  if (request.brief !== undefined) return { ...request, source, deliver, updateSource: true };
  const plan = mappingOf(request.plan);
  if (plan.source !== undefined) return { ...request };
  const own = mappingOf(plan.deliver);
  const isOwn = own.repo !== undefined || own.forge === "local";
  return { ...request, plan: { ...plan, source, deliver: isOwn ? own : { ...deliver, ...own } }, updateSource: true };
}

const mappingOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {};

/**
 * Whether an error is an answer for people, because a repetition would end the same way. What the
 * forge refuses us is not, except for a file that we do not read.
 */
export const isAnswer = (error: unknown): error is WavesmithError =>
  error instanceof WavesmithError &&
  !(error.retryable || error.code === "internal" || error.code === "capacity") &&
  !(error instanceof ForgeError && error.fault !== "invalid");
