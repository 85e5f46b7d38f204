type Cleanup = () => Promise<void>;

// A worker loads this folder's modules once and runs many test files. A Vitest hook belongs to the
// file that is being loaded, so a hook at the top of such a module would clean up only after the
// worker's first file.

const afterFile: Cleanup[] = [];
const afterTest: Cleanup[] = [];

/** Runs `cleanup` at the end of every test file of this worker. */
export function eachFileEnds(cleanup: Cleanup): void {
  afterFile.push(cleanup);
}

/** Runs `cleanup` at the end of every test of this worker, after the test's own hooks. */
export function eachTestEnds(cleanup: Cleanup): void {
  afterTest.push(cleanup);
}

export async function cleanUpAfterFile(): Promise<void> {
  for (const cleanup of afterFile) await cleanup();
}

export async function cleanUpAfterTest(): Promise<void> {
  for (const cleanup of afterTest) await cleanup();
}
