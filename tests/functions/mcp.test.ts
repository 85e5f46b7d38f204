import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { ToolAnnotations } from "@modelcontextprotocol/sdk/types.js";
import { afterEach, describe, expect, it } from "vitest";
import { checkPlanText } from "../../src/api/plan-check.ts";
import { testDatabase } from "../support/database.ts";
import { serveMcp } from "../support/mcp-served.ts";
import { requires } from "../support/require.ts";

// Another agent uses Wavesmith through the Model Context Protocol, with a real client.

const plan = `name: served
gates: { testing: false, integration: false }
tasks:
  - { id: a, run: 'echo hello; echo made by a > a.txt' }
`;

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Calls a tool; parses an answer in JSON. */
async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const { content, isError = false } = await client.callTool({ name, arguments: args });
  const text = (content as { text: string }[]).map((part) => part.text).join("");
  return { isError, text, json: text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {} };
}

interface World {
  readonly client: Client;
  /** The name of a project whose builds are driven. */
  readonly project: string;
}

async function overHttp(): Promise<World & { url: URL; connect(key: string): Promise<Client> }> {
  const served = await serveMcp();
  closers.push(served.close);
  const url = new URL(served.url);
  const connect = async (key: string) => {
    const client = new Client({ name: "test", version: "1" });
    const headers = { authorization: `Bearer ${key}` };
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
    closers.push(() => client.close());
    return client;
  };
  return { client: await connect(served.key), project: served.project, url, connect };
}

async function overStdio(): Promise<World> {
  const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-mcp-"));
  closers.push(async () => rmSync(dataDir, { recursive: true, force: true }));
  const database = await testDatabase();
  closers.push(() => database.close());
  const client = new Client({ name: "test", version: "1" });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ["bin/wavesmith.js", "mcp"],
    env: {
      ...(process.env as Record<string, string>),
      ...{ WAVESMITH_DATA: dataDir, DATABASE_URL: database.url },
      WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
    },
    stderr: "ignore",
  });
  await client.connect(transport);
  closers.push(() => client.close());
  return { client, project: "served" };
}

describe.each([
  ["stdio", overStdio],
  ["streamable HTTP", overHttp],
] as const)("an agent that speaks MCP over %s", (_, open) => {
  it("checks a plan, starts it, follows it to its end and sees its result", { timeout: 120_000 }, async () => {
    const { client, project } = await open();
    const faulty = await call(client, "check_plan", {
      plan: "name: x\ntasks:\n  - { id: a, run: true, after: [b] }\n",
    });
    expect(faulty.json.faults).not.toEqual([]);
    expect((await call(client, "check_plan", { plan })).json).toMatchObject({ faults: [], waves: [{ tasks: ["a"] }] });
    const refused = await call(client, "start_build", { project, plan: "name: x\ntasks: []\n" });
    expect(refused).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^plan-invalid: .*check_plan checks it/s),
    });
    const request = { project, plan, idempotencyKey: "once", requestedBy: "ada" };
    const started = await call(client, "start_build", request);
    const build = String(started.json.buildId);
    expect((await call(client, "start_build", request)).json.buildId).toBe(build);
    await expect
      .poll(async () => (await call(client, "build_status", { build, waitSeconds: 5 })).json.status, {
        timeout: 90_000,
      })
      .toBe("completed");
    expect((await call(client, "list_builds")).json).toMatchObject({ items: [{ id: build, requestedBy: "ada" }] });
    expect((await call(client, "build_diff", { build })).text).toContain("+made by a");
    expect((await call(client, "task_log", { build, task: "a" })).json).toMatchObject({ text: "hello\n", ended: true });
    expect((await call(client, "build_findings", { build })).json.items).toMatchObject([{ gate: "testing" }, {}, {}]);
    expect((await call(client, "inbox")).json).toEqual({ items: [] });
    const told = await call(client, "tell_task", { build, task: "a", text: "hello" });
    expect(told).toMatchObject({ isError: true, text: expect.stringContaining("runs a script") });
    const approved = await call(client, "approve_wave", { build });
    expect(approved).toMatchObject({ isError: true, text: expect.stringMatching(/^conflict: .*What to do: /s) });
    expect(await call(client, "build_status", { build: "bld_none" })).toMatchObject({ isError: true });
    expect(await call(client, "build_status", { nonsense: true })).toMatchObject({ isError: true });
  });
});

describe("the tools of MCP", () => {
  it("say which of them change something, and which may remove something", async () => {
    const { client } = await overHttp();
    const { tools } = await client.listTools();
    const named = (holds: (hints: ToolAnnotations) => boolean) =>
      tools.filter(({ annotations }) => holds(annotations ?? {})).map(({ name }) => name);
    expect(named(({ readOnlyHint }) => readOnlyHint !== true)).toEqual(
      expect.arrayContaining(["start_build", "tell_task", "approve_wave", "reject_wave", "cancel_build"]),
    );
    expect(named(({ readOnlyHint }) => readOnlyHint === true)).toEqual(
      expect.arrayContaining(["check_plan", "build_status", "task_log", "build_diff", "build_findings"]),
    );
    expect(named(({ destructiveHint }) => destructiveHint === true)).toEqual(
      expect.arrayContaining(["approve_wave", "reject_wave", "answer_question", "cancel_build"]),
    );
  });

  it("need a key over HTTP, and can do no more than that key", async () => {
    const { url, connect } = await overHttp();
    await expect(connect("wrong")).rejects.toThrow(/401|valid key/);
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(401);
    const made = await fetch(new URL("/api/v1/keys", url), {
      method: "POST",
      headers: { authorization: "Bearer s3cret", "content-type": "application/json" },
      body: JSON.stringify({ name: "reader", scope: "read" }),
    });
    const { key } = (await made.json()) as { key: string };
    const reader = await connect(key);
    expect(await call(reader, "list_builds")).toMatchObject({ isError: false });
    const refused = await call(reader, "start_build", { project: "served", plan });
    expect(refused).toMatchObject({ isError: true, text: expect.stringContaining("forbidden") });
  });
});

describe("the skill for agents", () => {
  it("shows a plan that has no faults", () => {
    const skill = readFileSync("skills/wavesmith/SKILL.md", "utf8");
    const [, shown = ""] = /```yaml\n(.*?)```/s.exec(skill) ?? [];
    const { faults, waves } = checkPlanText(shown.replace("source: { path: . }\n", ""), "yaml", {});
    expect(faults).toEqual([]);
    expect(waves.map(({ tasks }) => tasks)).toEqual([["schema"], ["api", "page"]]);
  });
});
