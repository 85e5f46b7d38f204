import { readFileSync } from "node:fs";
import { delimiter, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig, settings } from "../../src/config.ts";

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

  it("are refused with every problem at once, and without showing a password", () => {
    const wrong = { DATABASE_URL: "mysql://root:hunter2@db/x", WAVESMITH_SANDBOX: "vagrant" };
    const load = () => loadConfig(wrong);
    expect(load).toThrow(/DATABASE_URL.*WAVESMITH_SANDBOX/s);
    expect(load).not.toThrow(/hunter2/);
  });

  it("are those of the README's table, word for word", () => {
    const table = read("README.md").split("## Settings")[1]!.split("\n## ")[0]!;
    const rows = table.split("\n").filter((line) => line.startsWith("| `"));
    const wanted = settings.map(({ name, default: value, describes }) => {
      return `| \`${name}\` | ${value === "" ? "none" : `\`${value}\``} | ${describes} |`;
    });
    expect(rows).toEqual(wanted);
  });

  it("are those of .env.example, word for word", () => {
    const [, ...blocks] = read(".env.example").trimEnd().split("\n\n");
    expect(blocks).toEqual(settings.map(({ name, default: value, describes }) => `# ${describes}\n# ${name}=${value}`));
  });
});
