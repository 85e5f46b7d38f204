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

  it("are read from the environment, where an empty variable counts as missing", () => {
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

  it("name an OpenID provider and who may sign in there", () => {
    const env = {
      WAVESMITH_OIDC_ISSUER: "https://login.example.com/realm",
      WAVESMITH_OIDC_CLIENT_ID: "wavesmith",
      WAVESMITH_OIDC_PEOPLE: "Ada@example.com=admin, @example.com=build ,@acme.com=acme corp/read",
    };
    expect(loadConfig({}).openId).toBeNull();
    expect(loadConfig(env).openId).toEqual({
      ...{ issuer: "https://login.example.com/realm", clientId: "wavesmith", clientSecret: null },
      rights: [
        { who: "ada@example.com", scope: "admin", tenant: null },
        { who: "@example.com", scope: "build", tenant: null },
        { who: "@acme.com", scope: "read", tenant: "acme corp" },
      ],
    });
    const secret = { ...env, WAVESMITH_OIDC_CLIENT_SECRET: "a-secret-of-the-client" };
    expect(Object.keys(loadConfig(secret).credentials)).toEqual(["WAVESMITH_OIDC_CLIENT_SECRET"]);
    expect(() => loadConfig({ ...env, WAVESMITH_OIDC_PEOPLE: "" })).toThrow(/belong together/);
    for (const people of ["example.com=admin", "@example.com", "@example.com=root", "a@b.c=read;d@e.f=read"])
      expect(() => loadConfig({ ...env, WAVESMITH_OIDC_PEOPLE: people }), people).toThrow(/must be ADDRESS=SCOPE/);
    for (const issuer of ["http://login.example.com", "http://127.0.0.1.example.com", "login.example.com"])
      expect(() => loadConfig({ ...env, WAVESMITH_OIDC_ISSUER: issuer }), issuer).toThrow(/begins with https/);
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

  it("say what was given and what would be valid", () => {
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
