import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentHostRequest } from "../src/agent-host/protocol.ts";
import { type App, createApp } from "../src/app.ts";
import { runCommandLine } from "../src/cli/main.ts";
import { createOutput } from "../src/cli/output/output.ts";
import { loadConfig } from "../src/config.ts";
import { projectIdFor } from "../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../src/domain/events/request-ids.ts";
import { guestProgram } from "../src/sandbox/guest/guest-program.ts";
import { job, outcome, shell, startGuest } from "../tests/contract/guest-fixture.ts";
import { withFolder } from "./database.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

const agentFile = fileURLToPath(new URL("./bench-agent.mjs", import.meta.url));
const now = (): number => performance.timeOrigin + performance.now();

export const agents: Benchmark = {
  name: "agents",
  about: "an ACP attempt from its launch to its prompt, and 1,000 updates a second of one agent, stored and shown",
  run: async ({ smoke }) => [...(await launches(smoke)), ...(await updates(smoke))],
};

/** Measures a job that runs the agent host, which starts the agent, against the agent alone. */
async function launches(smoke: boolean): Promise<Finding[]> {
  const guest = await startGuest({ isolation: existsSync("/usr/bin/bwrap") ? "bubblewrap" : "sweep" });
  const at = join(guest.root, "at");
  const took = (begun: number): number => {
    const came = Number(readFileSync(at, "utf8"));
    rmSync(at);
    return came - begun;
  };
  try {
    const programs = dirname(await guestProgram(join(guest.folder, "cache")));
    for (const [from, name] of [
      [join(programs, "agent-host.mjs"), "agent-host.mjs"],
      [agentFile, "agent.mjs"],
    ] as const)
      await copyFile(from, join(guest.root, name));
    await mkdir(join(guest.root, "tree"));
    let rounds = 0;
    const median = await interleaved(smoke ? 1 : 31, {
      attempt: async () => {
        rounds += 1;
        const stage = shell('exec "$NODE" agent-host.mjs', {
          stdin: JSON.stringify(hostRequest(guest.root, at, rounds)),
          env: { NODE: process.execPath },
        });
        const begun = now();
        await guest.client.startJob(`attempt-${rounds}`, job(stage));
        const { stages } = await outcome(guest.client, `attempt-${rounds}`);
        if (stages[0]?.exitCode !== 0) throw new Error(`the attempt ended with ${JSON.stringify(stages[0])}`);
        return took(begun);
      },
      agent: async () => {
        const begun = now();
        const agent = spawn(process.execPath, [join(guest.root, "agent.mjs")], {
          stdio: ["pipe", "ignore", "inherit"],
        });
        agent.stdin.end(alone(at));
        await once(agent, "exit");
        return took(begun);
      },
    });
    const ours = Math.max(0, median.attempt - median.agent);
    const common = { unit: "ms", floor: null, limit: null } as const;
    return [
      {
        what: "an ACP attempt, from launch to prompt, without the agent's own start",
        ours,
        unit: "ms",
        floor: null,
        limit: 100,
      },
      { what: "the same, with it", ours: median.attempt, ...common },
      { what: "the agent alone", ours: median.agent, ...common },
    ];
  } finally {
    await guest.stop();
  }
}

const hostRequest = (root: string, at: string, round: number): AgentHostRequest => ({
  command: `exec '${process.execPath}' '${join(root, "agent.mjs")}'`,
  prompt: `at ${at}`,
  cwd: join(root, "tree"),
  home: join(root, `home-${round}`),
  model: null,
  effort: null,
  mcp: [],
  images: [],
  skills: [],
  result: null,
  readable: [root],
  readOnly: false,
  ask: null,
  idleMs: 60_000,
  graceMs: 1_000,
});

/** The messages that every client sends, all at once. */
const alone = (at: string): string =>
  [
    { id: 0, method: "initialize", params: { protocolVersion: 1 } },
    { id: 1, method: "session/new", params: { cwd: "/", mcpServers: [] } },
    { id: 2, method: "session/prompt", params: { sessionId: "bench", prompt: [{ type: "text", text: `at ${at}` }] } },
  ]
    .map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
    .join("");

/** Runs a build of one task whose agent sends updates while `logs --follow` shows them. */
async function updates(smoke: boolean): Promise<Finding[]> {
  const count = smoke ? 200 : 10_000;
  return withFolder(async (folder) => {
    const source = join(folder, "source");
    await mkdir(source);
    await writeFile(join(source, "agent.mjs"), await readFile(agentFile));
    const config = loadConfig({ ...process.env, WAVESMITH_DATA: join(folder, "data"), DATABASE_URL: "" });
    const app = await createApp({ config, warn: (message) => process.stderr.write(`${message}\n`) });
    const projectId = projectIdFor("default", "bench");
    try {
      await app.start(new Set([projectId]));
      const id = "project/build.requested:bench:0";
      const data = { projectId, project: "bench", plan: planOf(source, count) };
      await app.send({ name: "project/build.requested", id, data });
      const seen = await followed(app, config.dataDir, buildIdForEvent(id));
      const lost = Array.from({ length: count }, (_, number) => number).filter((number) => !seen.at.has(number)).length;
      const last = seen.at.get(count - 1) ?? Number.POSITIVE_INFINITY;
      const { sendMs, sentAt } = seen;
      return [
        { what: `${count} updates of one agent: lost`, ours: lost, unit: "updates", floor: null, limit: 0 },
        { what: "sent in (1,000 a second asked for)", ours: sendMs, unit: "ms", floor: null, limit: null },
        { what: "the last one shown after it was sent", ours: last - sentAt, unit: "ms", floor: null, limit: 2_000 },
      ];
    } finally {
      await app.close();
      await app.ports.driver(config.sandboxDriver).remove(projectId, { volume: true });
    }
  });
}

const planOf = (source: string, count: number) => ({
  name: "bench",
  source: { path: source },
  agents: { default: { runtime: "acp", command: "exec node agent.mjs" } },
  gates: { testing: false, critic: false, integration: false },
  tasks: [
    {
      id: "talk",
      agent: "default",
      instructions: `updates ${count} 1000`,
      acceptance: [{ text: "sent", check: "cat sent" }],
    },
  ],
});

interface Seen {
  /** When each update was shown, in ms since 1970. */
  readonly at: ReadonlyMap<number, number>;
  readonly sendMs: number;
  /** When the last one was sent. */
  readonly sentAt: number;
}

/** Collects what `logs --follow` shows until the build ends. */
async function followed(app: App, dataDir: string, buildId: string): Promise<Seen> {
  while ((await app.store.builds.find({ id: buildId })) === null) await new Promise((wake) => setTimeout(wake, 20));
  const at = new Map<number, number>();
  let sent: readonly number[] = [];
  const take = (text: string): void => {
    const shownAt = now();
    for (const [, number] of text.matchAll(/u(\d+);/g)) at.set(Number(number), at.get(Number(number)) ?? shownAt);
    const figures = /│ (\d+\.?\d*) (\d+\.?\d*)$/m.exec(text);
    if (figures !== null) sent = figures.slice(1).map(Number);
  };
  const stream = {
    write: (text: string, done?: () => void) => {
      take(text);
      done?.();
      return true;
    },
    on: () => undefined,
  };
  const out = createOutput({ stdout: stream, stderr: { ...stream, write: () => true }, environment: {} });
  const code = await runCommandLine(["logs", buildId, "--follow"], out, { ...process.env, WAVESMITH_DATA: dataDir });
  const { status, reason } = await app.store.builds.get({ id: buildId });
  if (code !== 0 || status !== "completed")
    throw new Error(`the build is ${status} (${reason}), logs ended with ${code}`);
  const [sendMs = Number.NaN, sentAt = Number.NaN] = sent;
  return { at, sendMs, sentAt };
}
