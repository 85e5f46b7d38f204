import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AgentHostRequest } from "../../src/agent-host/protocol.ts";
import { commandOf, endOf, hostFixture } from "../support/agent-host.ts";

const { folder, requestOf, start } = hostFixture(commandOf("scripted-agent"));

const host = (prompt: string, more: Partial<AgentHostRequest> = {}, env: Record<string, string> = {}) =>
  start(requestOf(prompt, more), env).ended;

describe("the agent host", () => {
  it("reports an agent's plan, messages, actions and usage, and that it finished", async () => {
    const ended = await host("plan a|b\nthink hm\nsay hello\nwrite made.txt text\nusage 10 100 0.5");
    expect(ended.code).toBe(0);
    expect(readFileSync(join(folder(), "tree/made.txt"), "utf8")).toBe("text");
    const kinds = ended.events.map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(["session", "plan", "thought", "message", "tool", "diff", "usage"]));
    expect(ended.events).toContainEqual(expect.objectContaining({ kind: "session", agent: "scripted 1.0.0" }));
    expect(ended.events).toContainEqual(expect.objectContaining({ kind: "usage", used: 10, size: 100, usd: 0.5 }));
    expect(ended.events.at(-1)).toMatchObject({ wavesmith: 1, kind: "end", end: "finished" });
  });

  it("allows an action in the tree once, by the kind of the option and not by its position", async () => {
    const ended = await host("write made.txt text");
    expect(ended.said).toContain("chose once");
    expect(ended.events).toContainEqual(expect.objectContaining({ kind: "permission", allowed: true }));
  });

  it.each(["../outside.txt", "lure/outside.txt", "/etc/passwd-of-ours", ".git/hooks/pre-commit"])(
    "rejects an edit of %s, and tells it",
    async (path) => {
      symlinkSync(folder(), join(folder(), "tree/lure"));
      const ended = await host(`write ${path} text`);
      expect(ended.said).toContain("chose no");
      expect(ended.events).toContainEqual(expect.objectContaining({ kind: "permission", allowed: false }));
      expect(existsSync(join(folder(), "outside.txt"))).toBe(false);
    },
  );

  it("tells an agent that stops after a refusal the reason, but not one that goes on", async () => {
    const noticesOf = async (prompt: string) =>
      (await host(prompt)).events.filter((event) => event.kind === "notice").map(({ text }) => text);
    expect(await noticesOf("write ../outside.txt text")).toEqual([
      "it stopped after a refused request: we told it the reason",
    ]);
    expect(await noticesOf("write ../outside.txt text\nwrite made.txt text")).toEqual([]);
  });

  it("refuses every edit of a role that only reads", async () => {
    expect((await host("write made.txt text", { readOnly: true })).said).toContain("chose no");
  });

  it("gives an agent a person's message with its next prompt, once its turn has ended", async () => {
    const run = start(requestOf("say working\nrun while [ ! -e go ]; do sleep 0.05; done\nsay turn over"));
    await run.until("working");
    run.tell({ message: 7, by: "ada", text: "write told.txt {prompts}", urgent: false });
    run.tell({ message: 8, by: "bob", text: "say two at once", urgent: false });
    writeFileSync(join(folder(), "tree/go"), "");
    const ended = await run.ended;
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(readFileSync(join(folder(), "tree/told.txt"), "utf8")).toBe("2");
    expect(ended.said).toMatch(/working.*turn over.*two at once/s);
    expect(ended.events.filter(({ kind }) => kind === "told")).toMatchObject([
      { message: 7, by: "ada", text: "write told.txt {prompts}" },
      { message: 8, by: "bob" },
    ]);
  });

  it("interrupts an agent's turn for an urgent message, and continues with it", async () => {
    const run = start(requestOf("say working\nhang\nsay never"));
    await run.until("working");
    run.tell({ message: 7, by: "ada", text: "write told.txt yes", urgent: true });
    const ended = await run.ended;
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(readFileSync(join(folder(), "tree/told.txt"), "utf8")).toBe("yes");
    expect(ended.said).not.toContain("never");
  });

  it("survives other output of an agent between its messages", async () => {
    const ended = await host('noise hello there\nnoise {"half": \nsay fine');
    expect(ended).toMatchObject({ code: 0, said: "fine" });
    expect(ended.noise).toContain("| hello there");
  });

  it.each([
    ["refuse", 10, "refused"],
    // Cut answers are continued; an agent in a loop is first told that it repeats itself.
    ["limit", 0, "finished"],
    ["always limit", 12, "limit"],
    ["loop 10", 0, "finished"],
    ["crash", 13, "crashed"],
    ["fail -32603 model said 400", 15, "model-error"],
    ["fail -32602 what is this", 14, "protocol-error"],
    ["fail -32603 401 unauthorized", 18, "not-signed-in"],
    ["fail -32603 wavesmith: over budget", 19, "over-budget"],
    ["always loop 10", 16, "stalled"],
    // Different calls of one tool, reported without their input at first; and one call that waits
    // for a change.
    ["varied 6", 0, "finished"],
    ["polls 6", 0, "finished"],
  ])("ends with a code of its own after %s", async (prompt, code, end) => {
    const ended = await host(prompt);
    expect(endOf(ended)).toMatchObject({ end });
    expect(ended.code).toBe(code);
  });

  it("tells an agent that repeats itself what it repeats, and one whose answer was cut to continue", async () => {
    const notices = async (prompt: string) =>
      (await host(prompt)).events.flatMap((event) => (event.kind === "notice" ? [event.text] : []));
    expect(await notices("loop 10")).toEqual([
      "it made the same call 4 times in a row, with the same result: look again: same: we told it to try something else",
    ]);
    expect(await notices("always limit")).toHaveLength(5);
  });

  it("reports the last words of an agent that crashed", async () => {
    expect(endOf(await host("crash"))).toMatchObject({ detail: expect.stringMatching(/: scripted: crashing$/) });
  });

  it("says that an agent is not installed, or not signed in", async () => {
    expect((await host("", { command: "exec no-such-agent" })).code).toBe(127);
    expect((await host("", {}, { SCRIPTED_SIGN_IN: "1" })).code).toBe(18);
  });

  it("ends a silent agent, even one that does not listen", async () => {
    expect(endOf(await host("hang", { idleMs: 1_500 }))).toMatchObject({ end: "stalled" });
    expect(endOf(await host("deaf", { idleMs: 1_500, graceMs: 200 }))).toMatchObject({ end: "stalled" });
  });

  it("does not blame an agent for its silence while it waits for a busy provider", async () => {
    let asked = 0;
    const proxy = createServer((incoming, response) => {
      expect(incoming.headers.authorization).toBe("Bearer wst_test");
      asked += 1;
      response.end(JSON.stringify({ waiting: incoming.url === "/wavesmith/waiting" && asked < 3 ? 1 : 0 }));
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const env = { WAVESMITH_MODEL_URL: url, WAVESMITH_MODEL_TOKEN: "wst_test" };
    expect(endOf(await host("hang", { idleMs: 1_000 }, env))).toMatchObject({ end: "stalled" });
    expect(asked).toBe(3);
    proxy.close();
  });

  it("shows a tool call that an agent reports only when it is over", async () => {
    const { events } = await host("over look around");
    const calls = events.filter((event) => event.kind === "tool");
    expect(calls.map(({ title, status }) => [title, status])).toEqual([
      ["look around", "pending"],
      ["look around", "completed"],
    ]);
  });

  it("cancels on SIGTERM, and leaves nothing of the agent", async () => {
    const { child, ended, until } = start(requestOf("run echo $PPID > agent.pid\nsay ready\nhang"));
    await until("ready");
    child.kill("SIGTERM");
    expect(endOf(await ended)).toMatchObject({ end: "cancelled" });
    const pid = Number(readFileSync(join(folder(), "tree/agent.pid"), "utf8"));
    expect(existsSync(`/proc/${pid}`)).toBe(false);
  });

  it("continues the session of an earlier attempt, and does not report its history again", async () => {
    await host("say attempt {prompts}");
    const again = await host("say attempt {prompts}");
    expect(again.said).toBe("attempt 2");
    expect(again.events).toContainEqual(expect.objectContaining({ kind: "session", resumed: true }));
  });

  it("opens a new session when the agent has forgotten the earlier one", async () => {
    await host("say one");
    rmSync(join(folder(), "home/scripted-sessions.json"));
    expect(await host("say attempt {prompts}")).toMatchObject({ code: 0, said: "attempt 1" });
  });

  it("opens a new session when the earlier one fails at once, and gives it the whole prompt", async () => {
    await host("once");
    const again = await host("once\nsay attempt {prompts}");
    expect(again).toMatchObject({ code: 0, said: "attempt 1" });
    const sessions = again.events.filter((event) => event.kind === "session");
    expect(sessions.map(({ resumed }) => resumed)).toEqual([true, false]);
  });

  it("fails when a new session fails at once, too", async () => {
    const { events } = await host("fail -32603 no luck");
    expect(events.filter((event) => event.kind === "session")).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ kind: "end", end: "model-error" });
  });

  it("never continues a session that overflowed its model's window", async () => {
    let call: object | null = { ending: "error", reason: "too long", overflowed: true };
    const proxy = createServer((_, response) => {
      response.end(JSON.stringify({ unfinished: call }));
      call = null;
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const env = { WAVESMITH_MODEL_URL: url, WAVESMITH_MODEL_TOKEN: "wst_test" };
    expect(endOf(await host("fail -32603 prompt is too long", {}, env))).toMatchObject({ end: "model-error" });
    expect(await host("say attempt {prompts}", {}, env)).toMatchObject({ code: 0, said: "attempt 1" });
    proxy.close();
  });

  it("tells an agent that continues its session in another tree where it is", async () => {
    await host("say one");
    mkdirSync(join(folder(), "second"));
    await host("keep", { cwd: join(folder(), "second") });
    expect(readFileSync(join(folder(), "second/prompt.txt"), "utf8")).toMatch(
      `You continue in another folder: your tree is now ${folder()}/second. The earlier one, ${folder()}/tree, is gone.`,
    );
  });

  it("gives the agent its own home, the proxy's address and token, and none of npm's variables", async () => {
    const env = { WAVESMITH_MODEL_URL: "http://127.0.0.1:1", WAVESMITH_MODEL_TOKEN: "wst_x", npm_config_registry: "x" };
    const names = ["HOME", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "OPENAI_BASE_URL", "npm_config_registry"];
    const ended = await host(names.map((name) => `env ${name}\nsay ,`).join("\n"), {}, env);
    expect(ended.said).toBe(
      `HOME=${folder()}/home,ANTHROPIC_BASE_URL=http://127.0.0.1:1/anthropic,ANTHROPIC_AUTH_TOKEN=wst_x,` +
        "OPENAI_BASE_URL=http://127.0.0.1:1/openai/v1,npm_config_registry=,",
    );
  });

  it("reports a thousand updates without losing one", async () => {
    const { said } = await host("flood 1000");
    expect(said.split("\n")).toEqual(Array.from({ length: 1_000 }, (_, at) => `update ${at}`));
  });
});

describe("an action that an agent may not take", () => {
  const asking = (waitMs = 60_000) => ({ ask: { folder: join(folder(), "answers"), waitMs } });
  const answered = (name: string, answer: object) => {
    const file = join(folder(), "answers", `${name}.json`);
    writeFileSync(`${file}.new`, JSON.stringify(answer));
    renameSync(`${file}.new`, file);
  };
  const permissions = ({ events }: Awaited<ReturnType<typeof host>>) =>
    events.filter((event) => event.kind === "permission");

  it("is put to a person, whose answer counts once", async () => {
    const { ended, until } = start(requestOf("write ../one.txt a\nwrite ../two.txt b\nwrite in.txt c", asking()));
    await until('"name":"q1"');
    answered("q1", { answer: "allow", by: "ada" });
    await until('"name":"q2"');
    answered("q2", { answer: "deny", by: "bob" });
    const { events, code, said } = await ended;
    expect([code, said]).toEqual([0, "chose once\nchose no\nchose once"]);
    expect(readFileSync(join(folder(), "one.txt"), "utf8")).toBe("a");
    expect(existsSync(join(folder(), "two.txt"))).toBe(false);
    const asked = events.filter((event) => event.kind === "question");
    expect(asked).toMatchObject([
      { name: "q1", title: "Write ../one.txt", reason: expect.stringContaining("outside its tree"), waitMs: 60_000 },
      { name: "q2", options: [{ kind: "allow_always" }, { kind: "allow_once" }, { kind: "reject_once" }] },
    ]);
    expect(events.filter((event) => event.kind === "permission")).toMatchObject([
      { allowed: true, reason: "allowed by ada", question: "q1" },
      { allowed: false, reason: "denied by bob", question: "q2" },
      { allowed: true, reason: "in its tree" },
    ]);
  });

  it("is denied when nobody answers in time, and the wait does not count as silence", async () => {
    const ended = await host("write ../one.txt a", { ...asking(3_000), idleMs: 1_500 });
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(permissions(ended)).toMatchObject([{ allowed: false, reason: "nobody answered in time", question: "q1" }]);
  });

  it("is not put to anybody if nobody is there, or if no person may allow it", async () => {
    expect((await host("write ../one.txt a")).events.map(({ kind }) => kind)).not.toContain("question");
    const ended = await host("write .git/config a", asking());
    expect(ended.events.map(({ kind }) => kind)).not.toContain("question");
    const readOnly = await host("write in.txt a", { ...asking(), readOnly: true });
    expect(readOnly.events.map(({ kind }) => kind)).not.toContain("question");
  });

  it("is no longer open once the agent is to end", async () => {
    const { child, ended, until } = start(requestOf("write ../one.txt a\nhang", asking()));
    await until('"name":"q1"');
    child.kill("SIGTERM");
    expect(endOf(await ended)).toMatchObject({ end: "cancelled" });
  });
});

describe("a secret", () => {
  it("is never sent in two pieces, so that readers can mask it", async () => {
    const secret = "a-secret-of-some-length";
    const ended = await host("halves SECRET", {}, { SECRET: secret });
    expect(ended.said).toBe(secret);
    expect(ended.events.filter((event) => event.kind === "message")).toHaveLength(1);
    expect(ended.noise).toBe(`| ${secret}`);
  });
});

describe("a role that submits a result", () => {
  const schema = {
    type: "object",
    properties: { findings: { type: "array", items: { type: "string" } } },
    required: ["findings"],
  };
  const result = () => ({ schema, file: join(folder(), "out/result.json") });
  const handedIn = () => JSON.parse(readFileSync(join(folder(), "out/result.json"), "utf8"));

  it("uses the tool submit_result, which refuses values that do not match the schema", async () => {
    const ended = await host('submit {"findings": 1}\nsubmit {"findings": ["one"]}', { result: result() });
    expect(ended.code).toBe(0);
    expect(ended.said).toContain("not accepted");
    expect(handedIn()).toEqual({ findings: ["one"] });
  });

  it("may write the result file instead", async () => {
    const ended = await host(`run echo '{"findings":[]}' > ../out/result.json`, { result: result() });
    expect(ended.code).toBe(0);
    expect(handedIn()).toEqual({ findings: [] });
  });

  it("is asked again at most twice, then ends without a result", async () => {
    const ended = await host("say asked {prompts}", { result: result() });
    expect(ended.code).toBe(17);
    expect(endOf(ended)).toMatchObject({ detail: "it submitted no result, although we asked again 2 times" });
  });
});
