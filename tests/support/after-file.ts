type Cleanup = () => Promise<void>;

// A worker loads this folder's modules once and runs many test files. A hook of Vitest belongs to
// the file that is being loaded, so one at the top of such a module would clean up after the
// worker's first file alone.

const afterFile: Cleanup[] = [];
const afterTest: Cleanup[] = [];

/** Has every test file of this worker end with `cleanup`. */
export function eachFileEnds(cleanup: Cleanup): void {
  afterFile.push(cleanup);
}

/** Has every test of this worker end with `cleanup`, after the test's own hooks. */
export function eachTestEnds(cleanup: Cleanup): void {
  afterTest.push(cleanup);
}

export async function cleanUpAfterFile(): Promise<void> {
  for (const cleanup of afterFile) await cleanup();
}

export async function cleanUpAfterTest(): Promise<void> {
  for (const cleanup of afterTest) await cleanup();
}
