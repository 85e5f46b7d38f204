import type { ProjectId } from "../domain/ids.ts";
import { type GateName, gateNames } from "../domain/status.ts";

// Where things are: volume paths, refs, event ids. One place, so that every verb and every person
// finds the same.

export const taskTreePath = (buildId: string, taskKey: string, attempt: number): string =>
  `trees/${buildId}/${taskKey}.${attempt}`;
/**
 * The one tree in which all tasks of a wave work whose plan has them share it; a wave that is
 * reopened has another.
 */
export const sharedTreePath = (buildId: string, waveNumber: number, epoch: number): string =>
  `trees/${buildId}/wave-${waveNumber}-${epoch}`;
/**
 * Whose shared tree this is; null for a tree that one attempt or gate run has for itself, which has
 * a dot.
 */
export function sharedTreeAt(treePath: string): { waveNumber: number; epoch: number } | null {
  const parts = /\/wave-(\d+)-(\d+)$/.exec(treePath);
  return parts === null ? null : { waveNumber: Number(parts[1]), epoch: Number(parts[2]) };
}
export const headTreePath = (buildId: string, kind: string, waveNumber: number, attempt: number): string =>
  `trees/${buildId}/${kind}-${waveNumber}.${attempt}`;
/**
 * One for each time the run was asked for: what an earlier job did to its tree is no longer clean.
 */
export const gateTreePath = (
  waveNumber: number,
  { buildId, gate, round, fence }: { buildId: string; gate: string; round: number; fence: number },
): string => `trees/${buildId}/gate-${waveNumber}-${gate}-${round}.${fence}`;
/** Which run of a gate this tree is for; null for any other tree. */
export function gateTreeAt(
  treePath: string,
): { buildId: string; waveNumber: number; gate: GateName; round: number } | null {
  const parts = /^trees\/([^/]+)\/gate-(\d+)-([a-z]+)-(\d+)\.\d+$/.exec(treePath);
  const gate = gateNames.find((name) => name === parts?.[3]);
  if (parts === null || gate === undefined) return null;
  return { buildId: parts[1]!, waveNumber: Number(parts[2]), gate, round: Number(parts[4]) };
}
/** What drivers know a project's preview sandbox by: it is beside the project's own sandbox. */
export const previewPlaceOf = (projectId: string): ProjectId => `${projectId}-preview` as ProjectId;
export const isPreviewPlace = (projectId: string): boolean => projectId.endsWith("-preview");

/** The task and result files of one job. */
export const handoverPath = (jobKey: string): string => `handover/${jobKey}`;

/** What `setup` made, for other trees to copy; written by nothing but the jobs that fill it. */
export const setupCacheFolder = "setup-cache";

/**
 * Where a made plan is written for people, in the folder of such plans; one that was made anew has
 * another name.
 */
export const planFileName = (buildId: string, waveNumber: number): string =>
  waveNumber === 1 ? `${buildId}.yaml` : `${buildId}-${waveNumber}.yaml`;
/** A person's answers to what its agent asks, one file each. */
export const answersPath = (jobKey: string): string => `${handoverPath(jobKey)}/answers`;

/**
 * Configuration and sessions of the agent that does a task, a fix or a review; kept between its
 * attempts.
 */
export const homePath = (buildId: string, subject: string): string => `homes/${buildId}/${subject}`;

export const mainRef = "refs/heads/main";
export const waveRef = (buildId: string, waveNumber: number): string =>
  `refs/heads/wavesmith/${buildId}/wave-${waveNumber}`;
export const taskRef = (buildId: string, taskKey: string, attempt: number): string =>
  `refs/heads/wavesmith/${buildId}/task/${taskKey}/${attempt}`;
export const headAttemptRef = (buildId: string, kind: string, waveNumber: number, attempt: number): string =>
  `refs/heads/wavesmith/${buildId}/${kind}-${waveNumber}/${attempt}`;
/** What was left in a wave's shared tree that no task of it had declared. */
export const leftoversRef = (buildId: string, waveNumber: number, epoch: number): string =>
  `refs/heads/wavesmith/${buildId}/leftovers-${waveNumber}/${epoch}`;
export const restoreRef = (buildId: string, waveNumber: number): string =>
  `refs/tags/wavesmith-restore/${buildId}/${waveNumber}`;

/** W13: `<event>:<subject>:<epoch>`. */
export const eventId = (name: string, subject: string, epoch: number): string => `${name}:${subject}:${epoch}`;
