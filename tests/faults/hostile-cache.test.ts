import { afterEach, describe, expect, it } from "vitest";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// W6: a gate never restores or downloads its inputs from anything that it judges. Each of these
// attacks once made testing pass on a broken application, unseen by git.

const drivers = (["local", "docker"] as const).filter((name) => requires(name === "local" ? "bubblewrap" : "docker"));

describe.each(drivers)("caches that decide what a gate runs (%s)", (sandbox) => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  });

  const forged = "#!/bin/sh\\necho 1..1; echo ok 1 - forged";
  /** Rewrites every runner that it can write to, and never fails. */
  const poison = (...places: string[]): string =>
    places
      .map(
        (place) =>
          `for file in ${place}; do printf '${forged}\\n' > "$file" && echo "wrote $file"; done 2> /dev/null || :`,
      )
      .join("\n");
  const inCache = [
    "/workspace/setup-cache/*/files/node_modules/.bin/runner",
    "../../../setup-cache/*/files/node_modules/.bin/runner",
  ];
  const honest = `mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho 1..1; if grep -q works app; then echo ok 1 - app; else echo not ok 1 - app; exit 1; fi\\n' > node_modules/.bin/runner
chmod +x node_modules/.bin/runner`;
  const testing = { command: "node_modules/.bin/runner", from: "app" };
  const quiet = { critic: false, integration: false, maxFixRounds: 0 } as const;
  const verdicts = async ({ id }: BuildRow) =>
    (await fixture.app.store.gateRuns.list({ buildId: id, gate: "testing" })).map(({ verdict }) => verdict);
  const said = async () => (await fixture.app.store.logChunks.list({})).map(({ text }) => text).join("");

  it("cannot be rewritten by a task or by its acceptance check", async () => {
    fixture = await createBuildFixture({ sandbox });
    const build = await fixture.build({
      setup: { run: honest, cache: ["lock"] },
      gates: { ...quiet, testing },
      tasks: [
        {
          id: "app",
          run: `test -x node_modules/.bin/runner; echo broken > app\n${poison(...inCache)}`,
          acceptance: [{ check: poison(...inCache) }],
          retries: 0,
        },
      ],
    });
    expect(await verdicts(build)).toEqual(["failed"]);
    expect(build.status).not.toBe("completed");
    expect(await said()).not.toContain("wrote /");
    // A later build starts from the same entry.
    const later = await fixture.build({
      setup: { run: honest, cache: ["lock"] },
      gates: { ...quiet, testing: { ...testing, from: "works" } },
      tasks: [{ id: "works", run: "node_modules/.bin/runner || echo works > app", retries: 0 }],
    });
    expect(await verdicts(later)).toEqual(["passed"]);
    expect(await fixture.git("show", "main:app")).toBe("works\n");
  });

  it("cannot be rewritten by the commands of a gate, nor by a setup that the wave itself has changed", async () => {
    fixture = await createBuildFixture({ sandbox });
    const build = await fixture.build({
      setup: { run: `if test -e setup.sh; then sh ./setup.sh; fi\n${honest}`, cache: ["lock"] },
      gates: { ...quiet, maxFixRounds: 1, testing },
      agents: {
        // Its tree has the first gate's setup.sh, and its work is judged again.
        fixer: { runtime: "command", command: "cat > /dev/null; rm setup.sh; echo fixed > app" },
      },
      tasks: [
        {
          id: "app",
          run: `echo broken > app; echo 2 > lock
cat > setup.sh <<'EOF'
mkdir -p /workspace/setup-cache/0123
${poison(...inCache)}
EOF`,
          writes: ["app", "lock", "setup.sh"],
          retries: 0,
        },
      ],
    });
    // The second gate restores nothing that the first one left, and judges the fixer's tree with
    // the honest runner.
    expect(await verdicts(build)).toEqual(["failed", "failed"]);
    expect(await said()).not.toContain("wrote /");
    const endpoint = await fixture.app.ports.driver(sandbox).find(fixture.projectId as never);
    // Only the entry of main's own lock file is filled; neither a gate nor a fix saves one.
    expect(await endpoint!.guest.list("setup-cache")).toHaveLength(1);
  });

  it("of package managers belong to one gate, even where the plan names the folder that tasks share", async () => {
    fixture = await createBuildFixture({ sandbox });
    // Like npm, pip and Go: nothing that is in the cache is fetched again.
    const fetch = `mkdir -p "$TOOL_CACHE"
if ! test -e "$TOOL_CACHE/runner"; then ${honest.replaceAll("node_modules/.bin", '"$TOOL_CACHE"')}; fi`;
    const build = await fixture.build({
      env: { TOOL_CACHE: "/workspace/cache/tool" },
      setup: { run: fetch },
      gates: { ...quiet, testing: { command: '"$TOOL_CACHE"/runner', from: "app" } },
      tasks: [
        {
          id: "app",
          run: `echo broken > app; ${poison('"$TOOL_CACHE"/runner', "/workspace/cache/tool/runner")}`,
          retries: 0,
        },
      ],
    });
    expect(await verdicts(build)).toEqual(["failed"]);
  });

  it("are filled without the files a task left in the folder that tasks share", async () => {
    fixture = await createBuildFixture({ sandbox });
    const fetch = `mkdir -p "$TOOL_CACHE" node_modules/.bin
if ! test -e "$TOOL_CACHE/runner"; then ${honest.replaceAll("node_modules/.bin", '"$TOOL_CACHE"')}; fi
cp "$TOOL_CACHE/runner" node_modules/.bin/runner`;
    const build = await fixture.build({
      env: { TOOL_CACHE: "/workspace/cache/tool" },
      setup: { run: fetch, cache: ["lock"] },
      gates: { ...quiet, testing: { ...testing, from: "app" } },
      tasks: [
        // With a new lock file, the next wave fills an entry of its own.
        { id: "first", run: `echo 1 > lock; mkdir -p "$TOOL_CACHE"; ${poison('"$TOOL_CACHE"/runner')}`, retries: 0 },
        { id: "app", dependsOn: ["first"], run: "echo broken > app", retries: 0 },
      ],
    });
    expect(await verdicts(build)).toEqual(["not-due", "failed"]);
  });
});
