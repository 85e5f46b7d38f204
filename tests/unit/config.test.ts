import { readFileSync } from "node:fs";
import { delimiter, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { exampleEnvironment, settingsTables, startOfTables } from "../../scripts/settings-pages.ts";
import { settings } from "../../src/config/settings.ts";
import { loadConfig } from "../../src/config.ts";

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");

describe("the settings", () => {
  it("have defaults with which everything runs", () => {
    expect(loadConfig({})).toMatchObject({
      dataDir: resolve(".wavesmith"),
      databaseUrl: null,
      sandboxDriver: "local",
      sandboxReadOnly: [],
    });
  });

  it("are read from the environment, an empty variable being none", () => {
    const config = loadConfig({
      WAVESMITH_DATA: "/data",
      DATABASE_URL: "postgres://localhost/wavesmith",
      WAVESMITH_SANDBOX: "",
      WAVESMITH_SANDBOX_READ_ONLY: ["/opt/sdk", "", "/data/models"].join(delimiter),
    });
    expect(config).toMatchObject({
      dataDir: "/data",
      databaseUrl: "postgres://localhost/wavesmith",
      sandboxDriver: "local",
      sandboxReadOnly: ["/opt/sdk", "/data/models"],
    });
  });

  it("set the limits of a sandbox", () => {
    const env = {
      WAVESMITH_SANDBOX_CPUS: "0.5",
      WAVESMITH_SANDBOX_MEMORY: "512MB",
      WAVESMITH_SANDBOX_PROCESSES: "64",
      WAVESMITH_SANDBOX_DISK: "3GB",
    };
    const limits = { cpus: 0.5, memoryBytes: 512 * 1024 ** 2, processes: 64, diskBytes: 3 * 1024 ** 3 };
    expect(loadConfig(env).sandboxPolicy.limits).toEqual(limits);
    const usual = { cpus: 2, memoryBytes: 4 * 1024 ** 3, processes: 512, diskBytes: 20 * 1024 ** 3 };
    expect(loadConfig({}).sandboxPolicy.limits).toEqual(usual);
  });

  it.each([
    ["CPUS", ["0", "0.00", "-1", "two", "1000", "1.234"]],
    ["MEMORY", ["0MB", "127MB", "4", "4PB"]],
    ["PROCESSES", ["0", "29", "1e3"]],
    ["DISK", ["0MB", "0GB", "20"]],
  ])("refuse for WAVESMITH_SANDBOX_%s what no sandbox could work with", (name, values) => {
    for (const value of values) expect(() => loadConfig({ [`WAVESMITH_SANDBOX_${name}`]: value }), value).toThrow(name);
  });

  it("say what was given and what would do", () => {
    const limits = (given: Record<string, string>) => loadConfig(given).sandboxPolicy.limits;
    expect(limits({ WAVESMITH_SANDBOX_DISK: "10TB" }).diskBytes).toBe(10 * 1024 ** 4);
    expect(() => limits({ WAVESMITH_SANDBOX_DISK: "10tb" })).toThrow(
      /^settings are wrong: WAVESMITH_SANDBOX_DISK: must be a size such as 512MB, 2GB or 1TB, not 10tb$/,
    );
    expect(() => limits({ WAVESMITH_SANDBOX: "podman" })).toThrow(/must be local, docker or local-unsafe, not podman$/);
  });

  it("are refused with every problem at once, and without showing a password", () => {
    const wrong = { DATABASE_URL: "mysql://root:hunter2@db/x", WAVESMITH_SANDBOX: "vagrant" };
    const load = () => loadConfig(wrong);
    expect(load).toThrow(/DATABASE_URL.*WAVESMITH_SANDBOX/s);
    expect(load).not.toThrow(/hunter2/);
  });

  it("are those of the tables in docs/settings.md", () => {
    expect(read("docs/settings.md").split(startOfTables)[1]!.trim()).toBe(settingsTables().trim());
    expect(settings.filter(({ name }) => !settingsTables().includes(`| \`${name}\` |`))).toEqual([]);
  });

  it("are those of .env.example", () => {
    expect(read(".env.example")).toBe(exampleEnvironment());
  });

  it("are in the README only where they exist", () => {
    const named = read("README.md")
      .split("## Settings")[1]!
      .split("\n## ")[0]!
      .match(/`[A-Z]+_[A-Z_]+`/g)!;
    const known = new Set(settings.map(({ name }) => `\`${name}\``));
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });
});
