import { z } from "zod";

/** Where branches and pull requests can go. */
export const forgeNames = ["local", "github"] as const;
export type ForgeName = (typeof forgeNames)[number];

/** When we merge one of our pull requests. */
export const mergePolicySchema = z.enum(["never", "when-green", "when-approved"]);
export type MergePolicy = z.infer<typeof mergePolicySchema>;

/** One pull request for the whole build, or one for each wave, each based on the one before. */
export const requestScopeSchema = z.enum(["build", "wave"]);

/** Whether a missing repository is made, and for whom to see. */
export const createPolicySchema = z.enum(["private", "public", "never"]);

/**
 * `waiting`: something is to be done at the forge. `open`: the request has everything, and people
 * or checks decide. `blocked`: a person has to fix something first. `closed`: a person closed it.
 */
export const pullRequestStatuses = ["waiting", "open", "merged", "blocked", "closed"] as const;
export type PullRequestStatus = (typeof pullRequestStatuses)[number];

/** The reason why a request is not merged yet, or `merged`. */
export const mergeStates = ["off", "checks", "approval", "conflict", "queued", "merged"] as const;
export type MergeState = (typeof mergeStates)[number];

export const checkStates = ["pending", "passed", "failed"] as const;

/** The result of one check of a commit. */
export interface ForgeCheck {
  readonly name: string;
  readonly state: (typeof checkStates)[number];
  readonly url: string | null;
}

/** A commit of a request. */
export interface RequestCommit {
  readonly sha: string;
  /** The first line of its message. */
  readonly title: string;
  readonly author: string;
  /** When it was made, in ISO 8601. */
  readonly at: string;
}

/** The steps of one delivery, in order. */
export const forgeSteps = ["repository", "push", "request", "checks", "merge"] as const;
export type ForgeStep = (typeof forgeSteps)[number];

/** The prefix of our branches at a forge. */
export const ownBranches = "wavesmith/";

/** Names a delivery's branch at the forge. */
export const requestBranch = (buildId: string, key: string): string =>
  `${ownBranches}${buildId}/${key === "build" ? "result" : key}`;
