import { afterEach, describe, expect, it } from "vitest";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// Faults between a critic's two looks, or in the second one, cost no more than the second look.

let fixture: BuildFixture;
afterEach(() => fixture.close());

const finding = { title: "Loses data", severity: "high", file: "new.txt", line: 1 };
/** Records each first look; a second look waits until it may confirm. */
const critic = `cat > /dev/null
if grep -q '"kind": "second-look"' "$WAVESMITH_TASK_FILE"; then
  while ! test -e ../../../signals/go; do sleep 0.05; done
  echo '{"verdicts":[{"finding":1,"confirmed":true}]}' > "$WAVESMITH_RESULT_FILE"
else
  echo "look: first"
  echo '${JSON.stringify({ findings: [finding] })}' > "$WAVESMITH_RESULT_FILE"
fi`;
const plan = {
  agents: { critic: { runtime: "command", command: critic } },
  gates: { testing: false, integration: false, maxFixRounds: 0 },
  tasks: [{ id: "a", run: "echo one > new.txt" }],
};
const guest = async (build: BuildRow) =>
  (await fixture.app.ports.driver(build.sandboxDriver).find(fixture.projectId as never))?.guest;

async function expectOneFirstLook(build: BuildRow): Promise<void> {
  const { store } = fixture.app;
  const chunks = await store.logChunks.list({});
  expect(chunks.flatMap(({ text }) => text.match(/^look: first$/gm) ?? [])).toHaveLength(1);
  const run = await store.gateRuns.get({ buildId: build.id, gate: "critic" });
  expect(run.verdict).toBe("failed");
  expect((await store.findings.list({ gateRunId: run.id })).map(({ message }) => message)).toEqual(["Loses data"]);
  expect(build.status).toBe("failed");
}

describe("a critic's second look", () => {
  it("starts once, whatever fails during its start", async () => {
    const failed: string[] = [];
    fixture = await createBuildFixture({
      crashPoint: (name) => {
        if (!name.startsWith("ask-second-look.") || failed.includes(name)) return;
        failed.push(name);
        throw new Error(`fault at ${name}`);
      },
    });
    const buildId = await fixture.request(plan);
    await fixture.until(buildId, async (build) => {
      await (await guest(build).catch(() => undefined))?.writeFile("signals/go", "");
      return build.status === "failed";
    });
    expect(failed).toEqual(["ask-second-look.before-commit", "ask-second-look.after-commit"]);
    await expectOneFirstLook(await fixture.app.store.builds.get({ id: buildId }));
    expect(await fixture.app.store.jobs.list({ buildId, ownerKind: "gate" })).toHaveLength(2);
  });

  it("alone is repeated when its sandbox is lost", async () => {
    fixture = await createBuildFixture();
    const buildId = await fixture.request(plan);
    const inLook = async (losses: number) => {
      const run = await fixture.app.store.gateRuns.find({ buildId, gate: "critic", losses });
      const key = run?.evidence?.firstLook === undefined ? null : run.jobKey;
      return key !== null && (await fixture.app.store.jobs.find({ key, status: "running" })) !== null;
    };
    const build = await fixture.until(buildId, () => inLook(0));
    await fixture.app.ports.driver(build.sandboxDriver).stop(fixture.projectId as never);
    await fixture.until(buildId, () => inLook(1));
    await (await guest(build))!.writeFile("signals/go", "");
    await expectOneFirstLook(await fixture.until(buildId));
    expect(await fixture.app.store.jobs.list({ buildId, ownerKind: "gate" })).toHaveLength(3);
  });
});
