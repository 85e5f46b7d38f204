import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { rawPlan } from "../../src/cli/parts.ts";
import { createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

const examples = fileURLToPath(new URL("../../examples", import.meta.url));

/** The outcome of a build of the example with this driver. */
async function endOf(example: string, sandbox: "local" | "local-unsafe" | "docker") {
  const fixture = await createBuildFixture({ sandbox, patienceMs: 400_000 });
  const file = join(examples, example, "plan.yaml");
  try {
    const plan = (await rawPlan(file)) as Record<string, unknown>;
    const build = await fixture.until(await fixture.request(plan, { planFolder: dirname(file) }));
    expect([build.status, build.reason], fixture.warnings.join("\n")).toEqual(["completed", null]);
    return { tree: await fixture.git("ls-tree", "-r", "main"), tasks: await fixture.tasks(build.id) };
  } finally {
    await fixture.close();
  }
}

describe.runIf(requires("docker"))("a whole build in Docker", { timeout: 900_000 }, () => {
  it.each(["diamond", "guestbook"])("of the example %s ends with the same tree as a local build", async (example) => {
    const local = await endOf(example, requires("bubblewrap") ? "local" : "local-unsafe");
    expect(await endOf(example, "docker")).toEqual(local);
  });
});
