import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import type { AgentEvent, AgentHostRequest, AgentMessage } from "../../src/agent-host/protocol.ts";
import { bundle, guestProgram } from "../../src/sandbox/guest/guest-program.ts";

// The agent host and agents as they are in a sandbox: one file each.

/**
 * Created when the first test runs, because nothing would remove it if every test of a file is
 * skipped.
 */
const programs = join(tmpdir(), `wavesmith-programs-${randomUUID()}`);
const programOf = (name: string): string => join(programs, `${name}.mjs`);

/** A command line that starts an agent. */
export const commandOf = (name: "builtin-agent" | "scripted-agent"): string =>
  `exec '${process.execPath}' '${programOf(name)}'`;

export interface Ended {
  readonly code: number | null;
  readonly events: AgentEvent[];
  readonly noise: string;
  readonly said: string;
}

interface RunningHost {
  readonly child: ReturnType<typeof spawn>;
  readonly ended: Promise<Ended>;
  /** Resolves once its output contains the text. */
  until(text: string): Promise<void>;
  /** Sends a person's message to the agent. */
  tell(message: AgentMessage): void;
}

export interface HostFixture {
  /** Contains `tree`, and whatever the test creates. */
  folder(): string;
  requestOf(prompt: string, more?: Partial<AgentHostRequest>): AgentHostRequest;
  start(request: AgentHostRequest, env?: Record<string, string>): RunningHost;
}

/** Bundles the programs for the tests of this file, and gives each test its own folder. */
export function hostFixture(command: string): HostFixture {
  let folder = "";
  beforeAll(async () => {
    mkdirSync(programs, { recursive: true });
    const made = dirname(await guestProgram(programs));
    for (const name of ["agent-host", "builtin-agent"]) copyFileSync(join(made, `${name}.mjs`), programOf(name));
    const scripted = await bundle(fileURLToPath(new URL("./scripted-agent.ts", import.meta.url)));
    writeFileSync(programOf("scripted-agent"), scripted);
  });
  afterAll(() => rmSync(programs, { recursive: true, force: true }));
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-host-"));
    mkdirSync(join(folder, "tree"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  return {
    folder: () => folder,
    requestOf: (prompt, more = {}) => ({
      command,
      prompt,
      cwd: join(folder, "tree"),
      home: join(folder, "home"),
      model: null,
      effort: null,
      mcp: [],
      skills: [],
      images: [],
      result: null,
      readable: [],
      readOnly: false,
      ask: null,
      idleMs: 60_000,
      graceMs: 5_000,
      ...more,
    }),
    start,
  };
}

const start: HostFixture["start"] = (request, env = {}) => {
  const child = spawn(process.execPath, [programOf("agent-host")], {
    cwd: request.cwd,
    env: { PATH: process.env.PATH ?? "", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const send = (line: object) => void child.stdin.write(`${JSON.stringify(line)}\n`);
  send(request);
  const ended = new Promise<Ended>((resolve) => child.once("close", (code) => resolve(readOutput(code, output))));
  const until = async (text: string): Promise<void> => {
    while (!output.includes(text)) await new Promise((done) => child.stdout.once("data", done));
  };
  return { child, ended, until, tell: send };
};

function readOutput(code: number | null, output: string): Ended {
  const lines = output.split("\n").filter((line) => line !== "");
  const events = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as AgentEvent);
  const said = events.flatMap((event) => (event.kind === "message" ? [event.text] : [])).join("\n");
  return { code, events, noise: lines.filter((line) => !line.startsWith("{")).join("\n"), said };
}

export const endOf = ({ events }: Ended) => events.find((event) => event.kind === "end");
