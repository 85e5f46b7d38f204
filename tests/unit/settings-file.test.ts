import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { viewSettings, writeSettings } from "../../src/api/settings.ts";
import { settingsSchema } from "../../src/config/settings.ts";
import { fileKeys, parseSettings } from "../../src/config/settings-file.ts";
import { loadConfig } from "../../src/config.ts";

const file = `# Our server
limits: { tasks: 8, tenantUsd: 12.5 }
sandbox:
  idle: 30m
  readOnly: [/opt/a, /opt/b]
  idleSnapshot: true
network:
  notifyHosts: [chat.internal]
`;

describe("the settings file", () => {
  let dataDir: string;
  const load = (env: Record<string, string> = {}) => loadConfig({ ...env, WAVESMITH_DATA: dataDir });
  const shown = (env: Record<string, string>, name: string) => load(env).settings.find((one) => one.name === name);

  beforeAll(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-settings-"));
    writeFileSync(join(dataDir, "settings.yaml"), file);
  });
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it("counts where the environment says nothing, and each value shows its source", () => {
    const config = load({ WAVESMITH_SANDBOX_IDLE: "5m" });
    expect(config.sandboxPolicy).toMatchObject({ idleMs: 300_000, snapshotWhenIdle: true });
    expect(config).toMatchObject({
      taskSlots: 8,
      notifyHosts: ["chat.internal"],
      sandboxReadOnly: ["/opt/a", "/opt/b"],
    });
    expect(config.tenantLimits.usd).toBe(12.5);
    expect(shown({}, "WAVESMITH_TASKS")).toMatchObject({ key: "limits.tasks", value: "8", source: "file", line: 2 });
    expect(shown({ WAVESMITH_TASKS: "3" }, "WAVESMITH_TASKS")).toMatchObject({ value: "3", source: "environment" });
    expect(shown({ WAVESMITH_TASKS: "" }, "WAVESMITH_TASKS")).toMatchObject({ source: "file" });
    expect(shown({}, "WAVESMITH_LOG")).toMatchObject({ value: "text", source: "default", line: null });
  });

  it("has the agents of roles as a map, and says what is wrong with them", () => {
    const { values, faults } = parseSettings(
      'agents: { roles: { critic: { runtime: builtin, model: "openai:gpt-5" } } }\n',
    );
    expect(faults).toEqual([]);
    expect(load(values).briefAgents).toMatchObject({ critic: { runtime: "builtin", model: "openai:gpt-5" } });
    const wrong = (roles: string) =>
      parseSettings(`agents: { roles: ${roles} }\n`).faults.map(({ message }) => message);
    expect(wrong("{ critic: { runtime: builtin } }")).toEqual(["critic: the runtime builtin needs a model"]);
    expect(wrong("{ critic: { runtime: acp, model: 'a:b' } }")).toEqual([expect.stringContaining("need a command")]);
    expect(wrong("{ Critic: { runtime: acp, command: x } }")).toHaveLength(1);
    expect(wrong("{ critic: { runtime: acp, command: x, secret: y } }")).toHaveLength(1);
    expect(wrong("many")).toEqual(["has a value of another kind"]);
  });

  it("shows no secret, and no password in a URL", () => {
    const env = {
      ANTHROPIC_API_KEY: "sk-ant-very-hidden",
      CLAUDE_CODE_OAUTH_TOKEN: "token-hidden",
      WAVESMITH_COMPATIBLE_KEYS: "lab=hidden-of-lab",
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=hidden",
      DATABASE_URL: "postgres://me:hidden@db/x",
      ANTHROPIC_BASE_URL: "https://me:hidden@proxy.example/v1",
    };
    expect(JSON.stringify(load(env).settings)).not.toContain("hidden");
    expect(shown(env, "ANTHROPIC_API_KEY")).toMatchObject({ isSecret: true, isSet: true, value: null });
    expect(shown(env, "ANTHROPIC_BASE_URL")).toMatchObject({ value: "https://…@proxy.example/v1" });
    for (const name of Object.values(fileKeys)) expect(shown(env, name)?.isSecret, name).toBe(false);
    const named = load().settings.filter(({ name }) => /KEY|SECRET|TOKEN|PASSWORD/.test(name));
    expect(named.filter(({ isSecret }) => !isSecret).map(({ name }) => name)).toEqual([
      "WAVESMITH_EVENT_SECRETS", // names of secrets
      "WAVESMITH_GITHUB_APP_KEY_FILE", // a path
    ]);
  });

  it("has all its faults reported together, by line", () => {
    const { faults } = parseSettings(
      "limits:\n  tasks: many\n  color: red\nsandbox: big\nsecrets:\n  ANTHROPIC_API_KEY: x\n",
    );
    expect(faults.map(({ line, path }) => [line, path])).toEqual([
      [2, "limits.tasks"],
      [3, "limits.color"],
      [4, "sandbox"],
      [6, "secrets.ANTHROPIC_API_KEY"],
    ]);
    for (const text of ["a: [", "- x", "limits: {tasks: 1, tasks: 2}", "[".repeat(9_000), "x".repeat(300_000)])
      expect([text.slice(0, 20), parseSettings(text).faults.length > 0]).toEqual([text.slice(0, 20), true]);
    expect(parseSettings("").faults).toEqual([]);
    expect(parseSettings("x-note: anything\nlimits: { tasks: none }").values).toEqual({ WAVESMITH_TASKS: "none" });
  });

  it("is refused with the faulty lines by the command that reads it", () => {
    const other = mkdtempSync(join(tmpdir(), "wavesmith-settings-"));
    writeFileSync(join(other, "settings.yaml"), "limits:\n  tasks: many\n");
    expect(() => loadConfig({ WAVESMITH_DATA: other })).toThrow(
      /settings\.yaml is wrong: line 2: limits\.tasks must be/,
    );
    rmSync(other, { recursive: true });
  });

  it("is replaced only with a file without faults, and only from the current version", async () => {
    const before = viewSettings(load());
    expect(before).toMatchObject({ text: file, restartNeeded: false });
    const faulty = { text: "limits: { tasks: many }", format: "yaml" as const, tag: null };
    expect(await writeSettings({ dataDir }, faulty)).toMatchObject([{ path: "limits.tasks", line: 1 }]);
    const stale = { text: "limits: { tasks: 4 }", format: "yaml" as const, tag: '"another"' };
    await expect(writeSettings({ dataDir }, stale)).rejects.toMatchObject({ code: "conflict" });
    const running = load();
    expect(await writeSettings({ dataDir }, { ...stale, tag: before.tag })).toEqual([]);
    expect(viewSettings(running)).toMatchObject({ restartNeeded: true, text: "limits: { tasks: 4 }" });
    expect(viewSettings(load()).restartNeeded).toBe(false);
    expect(await writeSettings({ dataDir }, { text: '{"limits":{"tasks":5}}', format: "json", tag: null })).toEqual([]);
    expect(viewSettings(load()).text).toBe("limits:\n  tasks: 5\n");
    const { tag } = viewSettings(load());
    const both = ["{ limits: { tasks: 6 } }", "{ limits: { tasks: 7 } }"].map((text) =>
      writeSettings({ dataDir }, { text, format: "json", tag }),
    );
    const ends = (await Promise.allSettled(both)).map(({ status }) => status);
    expect(ends.toSorted(), "of two at once, one has read what the other replaced").toEqual(["fulfilled", "rejected"]);
    expect(readdirSync(dataDir)).toEqual(["settings.yaml"]);
  });

  it("has only keys of settings that exist", () => {
    for (const name of Object.values(fileKeys)) expect(Object.keys(settingsSchema.shape)).toContain(name);
  });
});
