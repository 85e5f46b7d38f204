import { itemAt } from "../known.ts";
import { type GateName, gateNames } from "../status.ts";

// The paths of trees, homes and hand-over folders on a volume. Every operation takes them from
// here.

export const taskTreePath = (buildId: string, taskKey: string, attempt: number): string =>
  `trees/${buildId}/${taskKey}.${attempt}`;
/** Returns the tree that all tasks of a wave share; a reopened wave has a new one. */
export const sharedTreePath = (buildId: string, waveNumber: number, epoch: number): string =>
  `trees/${buildId}/wave-${waveNumber}-${epoch}`;
/** Returns the wave that shares this tree; null for an attempt's or gate run's own tree. */
export function sharedTreeAt(treePath: string): { waveNumber: number; epoch: number } | null {
  const parts = /\/wave-(\d+)-(\d+)$/.exec(treePath);
  return parts === null ? null : { waveNumber: Number(parts[1]), epoch: Number(parts[2]) };
}
export const headTreePath = (buildId: string, kind: string, waveNumber: number, attempt: number): string =>
  `trees/${buildId}/${kind}-${waveNumber}.${attempt}`;
/** Returns the tree for one request of a gate run; each has its own, because jobs change trees. */
export const gateTreePath = (
  waveNumber: number,
  { buildId, gate, round, fence }: { buildId: string; gate: string; round: number; fence: number },
): string => `trees/${buildId}/gate-${waveNumber}-${gate}-${round}.${fence}`;
/** Returns the gate run that this tree is for; null for any other tree. */
export function gateTreeAt(
  treePath: string,
): { buildId: string; waveNumber: number; gate: GateName; round: number } | null {
  const parts = /^trees\/([^/]+)\/gate-(\d+)-([a-z]+)-(\d+)\.\d+$/.exec(treePath);
  const gate = gateNames.find((name) => name === parts?.[3]);
  if (parts === null || gate === undefined) return null;
  return { buildId: itemAt(parts, 1), waveNumber: Number(parts[2]), gate, round: Number(parts[4]) };
}
/** Returns the folder of a job's task and result files. */
export const handoverPath = (jobKey: string): string => `handover/${jobKey}`;
/** The folder of saved setup results, which only the jobs that fill it write. */
export const setupCacheFolder = "setup-cache";
/** Returns the folder of a person's answers to a job's questions, one file each. */
export const answersPath = (jobKey: string): string => `${handoverPath(jobKey)}/answers`;
/** Returns the home of a task's, fix's or review's agent, which is kept between attempts. */
export const homePath = (buildId: string, subject: string): string => `homes/${buildId}/${subject}`;
