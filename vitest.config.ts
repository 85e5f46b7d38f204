import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take a minute or more, longest first: none of them may be left over at the end. */
const longest = [
  "faults/crash-points",
  "functions/brief",
  "simulation/simulation",
  "e2e/histories",
  "e2e/random-plans",
  "contract/workspace-keep",
  "functions/serve",
  "functions/build",
  "faults/lifecycle-crashes",
  "faults/gate-agent-crashes",
  "faults/critic-crashes",
].map((name) => `/tests/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files);
    const first = longest.flatMap((name) => rest.filter(({ moduleId }) => moduleId.endsWith(name)));
    return [...new Set([...first, ...rest])];
  }
}

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    globalSetup: ["tests/support/leftovers.ts"],
    setupFiles: ["tests/support/setup.ts"],
    // Most of a test file's start is loading the sources, so the files that a worker runs share
    // them.
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    maxWorkers: 4,
    reporters: ["default"],
    sequence: { sequencer: LongestFirst },
  },
});
