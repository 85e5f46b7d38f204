import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { AgentEvent, AgentHostRequest } from "../../src/agent-host/protocol.ts";
import { bundle } from "../../src/sandbox/guest/guest-program.ts";
import { commandOf, endOf, hostFixture } from "../support/agent-host.ts";
import { type FakeAnswer, type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";

// The built-in agent's tools besides files and commands: pages, MCP servers and skills.

const { folder, requestOf, start } = hostFixture(commandOf("builtin-agent"));
let providers: FakeProviders;
let events: readonly AgentEvent[] = [];
let call: NonNullable<FakeAnswer["tools"]>[number];
beforeEach(async () => {
  providers = await startFakeProviders(({ number }) => (number === 1 ? { tools: [call] } : { text: "done" }));
  execFileSync("git", ["init", "-q", join(folder(), "tree")]);
});
afterEach(() => providers.close());

/**
 * Runs the agent, whose model makes one call; resolves with the last thing that the model is told.
 */
async function told(more: Partial<AgentHostRequest> = {}): Promise<string> {
  const env = { WAVESMITH_MODEL_URL: providers.url, WAVESMITH_MODEL_TOKEN: "wst_test" };
  const ended = await start(requestOf("do it", { model: "anthropic:claude-test", ...more }), env).ended;
  expect(endOf(ended), ended.noise).toMatchObject({ end: "finished" });
  events = ended.events;
  return JSON.stringify(providers.requests.at(-1)?.body.messages);
}

it("fetches a page as text", async () => {
  const pages = createServer((request, response) => {
    response.writeHead(request.url === "/page" ? 200 : 404, { "content-type": "text/html" });
    response.end("<html><head><style>p {}</style></head><body><p>Hello <b>reader</b></p></body></html>");
  });
  await new Promise<void>((done) => pages.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  try {
    call = { name: "fetch_page", input: { url: `${url}/page` } };
    const text = await told();
    expect(text).toContain("Hello reader");
    expect(text).not.toContain("style");
  } finally {
    pages.close();
  }
});

it("says that a page cannot be fetched", async () => {
  call = { name: "fetch_page", input: { url: "http://127.0.0.1:1/page" } };
  expect(await told()).toContain("not fetched");
});

it("says that there is no such page", async () => {
  const pages = createServer((_request, response) => response.writeHead(404).end("nobody home"));
  await new Promise<void>((done) => pages.listen(0, "127.0.0.1", done));
  try {
    call = { name: "fetch_page", input: { url: `http://127.0.0.1:${(pages.address() as AddressInfo).port}/none` } };
    expect(await told()).toMatch(/not fetched: .*404/);
  } finally {
    pages.close();
  }
});

it("has the tools of the role's MCP servers, under the server's name", async () => {
  const file = join(folder(), "docs.mjs");
  writeFileSync(file, await bundle(fileURLToPath(new URL("../support/mcp-server.ts", import.meta.url))));
  call = { name: "docs_lookup", input: { word: "answer" } };
  const mcp = [{ name: "docs", command: `exec '${process.execPath}' '${file}'` }];
  expect(await told({ mcp })).toContain("answer means forty-two");
  const shown = { kind: "tool", title: "docs_lookup", input: '{"word":"answer"}', status: "completed" };
  expect(events).toContainEqual(expect.objectContaining(shown));
});

it("goes on without an MCP server that does not start, and says so", async () => {
  call = { name: "exec", input: { command: "echo on" } };
  expect(await told({ mcp: [{ name: "docs", command: "exit 1" }] })).toContain("on\\n");
  const text = expect.stringContaining("the MCP server docs did not start: ");
  expect(events).toContainEqual(expect.objectContaining({ kind: "notice", text }));
});

it("lists the role's existing skills in its prompt", async () => {
  const skill = join(folder(), "tree/docs/skills/review");
  mkdirSync(skill, { recursive: true });
  writeFileSync(join(skill, "SKILL.md"), "---\nname: review\ndescription: for reviews\n---\n# Review\n");
  call = { name: "read_file", input: { path: "docs/skills/review/SKILL.md" } };
  const text = await told({ skills: ["docs/skills/review", "docs/skills/none"] });
  expect(text).toContain("review: for reviews (read docs/skills/review/SKILL.md)");
  expect(text).not.toContain("docs/skills/none");
});
