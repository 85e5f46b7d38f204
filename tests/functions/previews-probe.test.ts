import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { jobOutputs, outputAfter } from "../../src/api/job-output.ts";
import { sleepIdlePreviews } from "../../src/coordinator/preview/sleep-preview.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

/** Listens late, answers 500 three times, then redirects to its sign-in; it prints its answers. */
const late = `import { createServer } from "node:http";
let asked = 0;
const server = createServer((request, response) => {
  asked += 1;
  const status = asked > 3 ? 302 : 500;
  console.log("answered " + status);
  response.writeHead(status, { location: "/sign-in" }).end();
});
setTimeout(() => server.listen(process.env.PORT, "127.0.0.1"), 1000);
`;
const app = { id: "app", run: `cat > app.mjs <<'END'\n${late}END\n` };

describe("the probe of a preview", { timeout: 120_000 }, () => {
  let fixture: BuildFixture;
  let passedMs: number;
  beforeEach(async () => {
    passedMs = 0;
    fixture = await createBuildFixture({ clock: () => new Date(Date.now() + passedMs), patienceMs: 90_000 });
  });
  afterEach(() => fixture.close());

  const statusOf = async (buildId: string) => (await fixture.app.store.previews.find({ buildId }))?.status ?? null;
  /** Everything the preview printed, in all of its starts. */
  const printed = async (buildId: string): Promise<string> => {
    const { store } = fixture.app;
    const jobs = (await jobOutputs(store, buildId)).filter(({ label }) => label === "preview");
    const chunks = await Promise.all(jobs.map(({ jobKey }) => outputAfter(store, jobKey, { after: -1, limit: 100 })));
    return chunks
      .flat()
      .map(({ text }) => text)
      .join("");
  };

  it("shows a preview that listens late and answers 500 only once it redirects, and keeps its output", async () => {
    const { id } = await fixture.build({
      tasks: [app],
      preview: { command: "exec node app.mjs" },
      gates: { integration: false },
    });
    await fixture.until(id, async () => (await statusOf(id)) === "ready");
    // Only the probe sent requests before the preview was shown.
    const answers = "answered 500\nanswered 500\nanswered 500\nanswered 302\n";
    await expect.poll(() => printed(id), { timeout: 30_000 }).toBe(answers);
    passedMs = 2 * 3_600_000;
    expect((await sleepIdlePreviews(fixture.app.ports)).asleep).toEqual([id]);
    expect(await printed(id)).toBe(answers);
  });

  it("reports a preview that does not boot as a finding, so that its wave does not pass", async () => {
    const build = await fixture.build({
      tasks: [{ id: "app", run: "echo 1 > app.mjs" }],
      preview: { command: "echo no database >&2; exit 7" },
    });
    const { reason } = await fixture.until(build.id, ({ status }) => status !== "running");
    expect(reason).toBe("wave 1 is blocked");
    const [run] = await fixture.app.store.gateRuns.list({ buildId: build.id, gate: "integration" });
    expect(run!.verdict).toBe("failed");
    const findings = await fixture.app.store.findings.list({ gateRunId: run!.id });
    expect(findings.map(({ severity, message }) => `${severity}: ${message}`)).toEqual([
      expect.stringMatching(/^high: .*preview/),
    ]);
    expect(run!.evidence!.outputTail).toContain("no database");
    expect(await statusOf(build.id)).toBeNull();
  });
});
