import { cp, mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkDataDirectory } from "../../src/store/data-directory.ts";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";

describe("the data directory of a database", () => {
  let root: string;
  let database: TestDatabase;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "wavesmith-directory-"));
    database = await testDatabase();
    for (const name of ["first", "second"]) await mkdir(join(root, name));
  });
  afterEach(async () => {
    await database.close();
    await rm(root, { recursive: true });
  });

  /** `commits`: the commits that the directory holds. */
  const use = (name: string, said: { claims?: boolean; isEmbedded?: boolean; commits?: string[] } = {}) =>
    checkDataDirectory({
      pool: database.pool,
      dataDir: join(root, name),
      isEmbedded: said.isEmbedded ?? false,
      claims: said.claims ?? true,
      holds: async (projectId, sha) => (said.commits ?? []).includes(`${projectId} ${sha}`),
    });
  const markOf = (name: string) => readFile(join(root, name, "data-directory-id"), "utf8").catch(() => null);
  const refusal = (message: RegExp, remedy: RegExp) =>
    expect.objectContaining({
      code: "environment",
      message: expect.stringMatching(message),
      remedy: expect.stringMatching(remedy),
    });

  async function built(): Promise<void> {
    const store = createStore(database.pool);
    await store.tenants.insert({ id: "ten", name: "default" });
    await store.projects.insert({ id: "proj", tenantId: "ten", name: "p" });
    const base = { tenantId: "ten", projectId: "proj", sandboxDriver: "local", network: "none" as const };
    const done = { status: "completed" as const, endedAt: new Date(), plan: {} as never };
    await store.builds.insert({ ...base, ...done, id: "bld_1", eventId: "1", headSha: "old" });
    await store.builds.insert({ ...base, ...done, id: "bld_2", eventId: "2", headSha: "new" });
  }
  const forget = () => database.pool.query("update installations set data_dir_id = null, data_dir_path = null");

  it("is the first that is used; any other is refused with that one's path, even by commands that only read", async () => {
    await use("first", { claims: false });
    expect(await markOf("first"), "who only reads marks nothing").toBeNull();
    await use("first");
    await use("first");
    const mark = (await markOf("first"))!.trim();
    for (const claims of [true, false]) {
      await expect(use("second", { claims })).rejects.toEqual(
        refusal(/work in the data directory .*\/first, and this command uses .*\/second/, /--data .*\/first/),
      );
    }
    expect(await markOf("second")).toBeNull();
    await use("first", { claims: false });
    await expect(use("second")).rejects.toEqual(refusal(/./, new RegExp(`echo ${mark} > .*/second/data-directory-id`)));
  });

  it("is only one when two begin at once", async () => {
    const ends = await Promise.allSettled(["first", "second", "first", "second"].map((name) => use(name)));
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    expect([await markOf("first"), await markOf("second")].filter((mark) => mark !== null)).toHaveLength(1);
  });

  it("is recognised by the commits of its builds if it is from before there were marks", async () => {
    await built();
    await expect(use("second", { commits: ["proj old"] })).rejects.toEqual(refusal(/none of their commits/, /--data/));
    expect(await markOf("second")).toBeNull();
    await use("first", { commits: ["proj new"] });
    await expect(use("second", { commits: ["proj new"] })).rejects.toEqual(refusal(/work in the data directory/, /./));
  });

  it("is recognised by its commits if its mark or the database's is lost", async () => {
    await use("first");
    await built();
    const mark = await markOf("first");
    await rm(join(root, "first", "data-directory-id"));
    await expect(use("second")).rejects.toEqual(refusal(/work in the data directory/, /first/));
    await use("first", { commits: ["proj new"] });
    expect(await markOf("first")).toBe(mark);
    await forget(); // restored from an earlier copy
    await expect(use("second")).rejects.toEqual(refusal(/none of their commits/, /--data/));
    await use("first", { commits: ["proj new"] });
    expect(await markOf("first")).toBe(mark);
  });

  it("may be moved, but not copied", async () => {
    await use("first");
    await rename(join(root, "first"), join(root, "moved"));
    await use("moved", { claims: false });
    await use("moved");
    await expect(use("second")).rejects.toEqual(refusal(/the data directory .*\/moved,/, /--data .*\/moved/));
    await cp(join(root, "moved"), join(root, "copy"), { recursive: true });
    for (const claims of [true, false])
      await expect(use("copy", { claims })).rejects.toEqual(
        refusal(/copy is a copy of .*\/moved/, /move .*\/moved away/),
      );
    await use("moved");
  });

  it("always belongs to the database inside it, even as a copy", async () => {
    await use("first", { isEmbedded: true });
    await cp(join(root, "first"), join(root, "copy"), { recursive: true });
    await use("copy", { isEmbedded: true });
    await rm(join(root, "copy", "data-directory-id"));
    await use("copy", { isEmbedded: true });
    expect(await markOf("copy")).toBe(await markOf("first"));
  });
});
