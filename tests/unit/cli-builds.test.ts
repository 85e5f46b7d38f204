import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { createStore } from "../../src/store/store.ts";
import { runHere } from "../support/command-line.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";

describe("the list of builds", () => {
  let database: TestDatabase;
  let folder = "";
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-builds-"));
    database = await testDatabase();
    const store = createStore(database.pool);
    await store.tenants.insert({ id: "ten_1", name: "one" });
    for (const [name, count] of [
      ["many", 51],
      ["few", 50],
    ] as const) {
      const projectId = projectIdFor("default", name);
      await store.projects.insert({ id: projectId, tenantId: "ten_1", name });
      const numbers = Array.from({ length: count }, (_, index) => index + 1);
      await store.builds.insertMany(
        numbers.map((number) => ({
          id: `bld_${name}${number}`,
          tenantId: "ten_1",
          projectId,
          eventId: `${name} ${number}`,
          status: "queued" as const,
          plan: { tasks: [] } as never,
          sandboxDriver: "local",
          network: "none" as const,
          createdAt: new Date(number * 1000),
        })),
      );
    }
  });
  afterAll(async () => {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function builds(...words: string[]): Promise<{ stdout: string; stderr: string }> {
    const environment = { DATABASE_URL: database.url, WAVESMITH_DATA: folder };
    const { code, ...written } = await runHere(["builds", ...words], environment);
    expect(code).toBe(0);
    return written;
  }

  it("shows the latest fifty, newest first, and says when there are older ones", async () => {
    const { stdout, stderr } = await builds("--project", "many");
    const ids = stdout.match(/bld_\w+/g)!;
    expect([ids.length, ids[0], ids.at(-1)]).toEqual([50, "bld_many51", "bld_many2"]);
    expect(stderr).toMatch(/the latest 50; for an older one, give its id: wavesmith status BUILD/);
    expect(JSON.parse((await builds("--project", "many", "--json")).stdout)).toMatchObject({ more: true });
  });

  it("says what each of them, and all together, have spent on models", async () => {
    const store = createStore(database.pool);
    await store.buildSpending.insert({ buildId: "bld_few50", spentTokens: 12_000, spentMicroUsd: 420_000 });
    await store.buildSpending.insert({ buildId: "bld_few49", spentTokens: 500, unpricedCalls: 2 });
    const { stdout, stderr } = await builds("--project", "few");
    const [latest, before, none] = stdout.split("\n");
    expect(latest).toMatch(/12\.0k tokens, 0\.42 USD$/);
    expect(before).toMatch(/500 tokens, price unknown$/);
    expect(none).not.toMatch(/token/);
    expect(stderr).toContain("total spent on models: 12.5k tokens, 0.42 USD and 2 calls of unknown price");
    const { builds: listed, spent } = JSON.parse((await builds("--project", "few", "--json")).stdout);
    expect(listed.slice(0, 3).map((one: { spent: object }) => one.spent)).toEqual([
      { tokens: 12_000, usd: 0.42, knownUsd: 0.42, unpricedCalls: 0 },
      { tokens: 500, usd: null, knownUsd: 0, unpricedCalls: 2 },
      { tokens: 0, usd: 0, knownUsd: 0, unpricedCalls: 0 },
    ]);
    expect(spent).toEqual({ tokens: 12_500, usd: null, knownUsd: 0.42, unpricedCalls: 2 });
    await store.buildSpending.remove({ buildId: ["bld_few50", "bld_few49"] });
  });

  it("does not mention older ones when there are none", async () => {
    const { stdout, stderr } = await builds("--project", "few");
    expect([stdout.trimEnd().split("\n").length, stderr]).toEqual([50, ""]);
    expect(JSON.parse((await builds("--project", "few", "--json")).stdout)).toMatchObject({ more: false });
  });
});
