// The refs of a build in the bare repository.

export const mainRef = "refs/heads/main";
export const waveRef = (buildId: string, waveNumber: number): string =>
  `refs/heads/wavesmith/${buildId}/wave-${waveNumber}`;
export const taskRef = (buildId: string, taskKey: string, attempt: number): string =>
  `refs/heads/wavesmith/${buildId}/task/${taskKey}/${attempt}`;
export const headAttemptRef = (buildId: string, kind: string, waveNumber: number, attempt: number): string =>
  `refs/heads/wavesmith/${buildId}/${kind}-${waveNumber}/${attempt}`;
/** Returns the ref for changes in a wave's shared tree that no task declared. */
export const leftoversRef = (buildId: string, waveNumber: number, epoch: number): string =>
  `refs/heads/wavesmith/${buildId}/leftovers-${waveNumber}/${epoch}`;
export const restoreRef = (buildId: string, waveNumber: number): string =>
  `refs/tags/wavesmith-restore/${buildId}/${waveNumber}`;
