import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { createStore } from "../../src/store/store.ts";
import type { BuildProcessInput, BuildProcessLine } from "../support/build-process.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { testDatabase } from "../support/database.ts";
import { type FakeAnswer, type FakeRequest, startFakeProviders } from "../support/fake-providers.ts";
import { pathsOf, type ReceivedSpan, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { requires } from "../support/require.ts";

const program = await bundledProgram("build-process");
const fault = { title: "It may lose data", severity: "high", confidence: 0.9, file: "api.txt", line: 1 };
const plan = {
  name: "killed",
  network: "none",
  limits: { budget: { tokens: 2_000_000 } },
  gates: { testing: false, integration: false, maxFixRounds: 0 },
  agents: {
    backend: { runtime: "builtin", model: "anthropic:claude-sonnet-4-5" },
    critic: { runtime: "builtin", model: "anthropic:claude-sonnet-4-5" },
  },
  tasks: [
    { id: "api", agent: "backend", instructions: "write api.txt", retries: 0 },
    // Output that the process wrote last is read from this file.
    { id: "note", run: "echo note > note.txt; touch ../../../cache/ran", retries: 0 },
  ],
};

type Session = "task" | "review" | "second look";
const sessionOf = (said: string): Session =>
  said.includes("# A second look") ? "second look" : said.includes("# Review of wave") ? "review" : "task";

/** The model's first call in a session; after that it says that it is done. */
const work: Readonly<Record<Session, FakeAnswer>> = {
  task: { tools: [{ name: "write_file", input: { path: "api.txt", content: "by a model\n" } }] },
  review: { tools: [{ name: "submit_result", input: { findings: [fault] } }] },
  "second look": { tools: [{ name: "submit_result", input: { verdicts: [{ finding: 1, confirmed: false }] } }] },
};

it("a build whose process is killed in a call of a task, of its critic and of the second look continues in the same attempts", {
  timeout: 300_000,
}, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-kill-"));
  const database = await testDatabase({ migrated: false });
  const killedIn: Session[] = [];
  let running: ChildProcess | null = null;
  const providers = await startFakeProviders(async ({ body }: FakeRequest) => {
    const session = sessionOf(JSON.stringify(body.messages[0]));
    if (!killedIn.includes(session)) {
      killedIn.push(session);
      running!.kill("SIGKILL");
      await once(running!, "exit");
      return { text: "nobody hears this" };
    }
    const isDone = JSON.stringify(body.messages.at(-1)).includes("tool_result");
    return { inputTokens: 100, outputTokens: 20, ...(isDone ? { text: "Done." } : work[session]) };
  });
  const receiver = await startOtlpReceiver();
  const env = {
    ...process.env,
    WAVESMITH_DATA: dataDir,
    DATABASE_URL: database.url,
    WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
    ANTHROPIC_API_KEY: "real-key",
    ANTHROPIC_BASE_URL: providers.url,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  };
  const input: BuildProcessInput = { project: basename(dataDir).toLowerCase(), plan, crashAt: null };
  const run = async (): Promise<BuildProcessLine[]> => {
    const child = spawn(process.execPath, [program, JSON.stringify(input)], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    running = child;
    const lines: BuildProcessLine[] = [];
    const read = createInterface({ input: child.stdout }).on("line", (line) => lines.push(JSON.parse(line)));
    const [code, signal] = await once(child, "exit");
    read.close();
    if (code !== 0 && signal !== "SIGKILL") throw new Error(`the process ended with ${code}: ${JSON.stringify(lines)}`);
    return lines;
  };
  try {
    let lines: BuildProcessLine[] = [];
    for (let started = 0; started < 8 && lines.at(-1)?.type !== "ended"; started += 1) lines = await run();
    expect(lines.at(-1)).toMatchObject({ type: "ended", status: "completed", reason: null });
    expect(killedIn).toEqual(["task", "review", "second look"]);
    const store = createStore(database.pool);
    const [build] = await store.builds.list({});
    const buildId = build!.id;
    // No attempt and no look was repeated, and no retry was spent.
    const attempts = await store.attempts.list({ buildId });
    expect(attempts.map(({ number, outcome }) => [number, outcome])).toEqual(Array(2).fill([1, "succeeded"]));
    expect(await store.gateRuns.list({ buildId, gate: "critic" })).toMatchObject([{ round: 1, verdict: "passed" }]);
    expect(await store.jobs.list({ buildId, ownerKind: "gate" })).toHaveLength(2);
    // Reservations of killed processes are counted once, in full, and nothing stays reserved.
    const calls = await store.modelCalls.list({ buildId });
    const worst = calls.filter(({ status }) => status === "cut");
    expect(worst).toHaveLength(killedIn.length);
    expect(calls.filter(({ status }) => status !== "cut").map(({ status }) => status)).toEqual(Array(6).fill("done"));
    const reserved = worst.reduce((sum, { reservedTokens }) => sum + reservedTokens, 0);
    expect(await store.buildSpending.get({ buildId })).toMatchObject({
      reservedTokens: 0,
      reservedMicroUsd: 0,
      spentTokens: reserved + 6 * 120,
      unpricedCalls: 0,
    });
    // The trace is complete, and each call is below the attempt or gate run that made it.
    const paths = pathsOf(receiver.spans.filter(onlyOnce()));
    expect(new Set(receiver.spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(paths.filter((path) => path.endsWith("> chat claude-sonnet-4-5"))).toHaveLength(calls.length);
    expect(paths).toEqual(
      expect.arrayContaining(["build", "build > wave 1 > task api > attempt 1 > chat claude-sonnet-4-5"]),
    );
  } finally {
    await receiver.close();
    await providers.close();
    await database.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
});

/**
 * A process that is killed while it sends spans may have sent them; then they come again,
 * unchanged.
 */
function onlyOnce(): (span: ReceivedSpan) => boolean {
  const seen = new Map<string, ReceivedSpan>();
  return (span) => {
    const known = seen.get(span.spanId);
    if (known !== undefined) expect(span).toEqual(known);
    seen.set(span.spanId, span);
    return known === undefined;
  };
}
