import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeArchive } from "../../src/app/backup/archive.ts";
import { type App, createApp } from "../../src/app.ts";
import { backUp, restoreFromBackup } from "../../src/cli/parts/backup.ts";
import type { Config } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { requestBuild } from "../../src/coordinator/build/request/request-build.ts";
import { storeUpload, uploadedSource } from "../../src/server/uploads.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";

const run = promisify(execFile);

describe("a backup", { timeout: 120_000 }, () => {
  let fixture: BuildFixture;
  let folder: string;
  let target: TestDatabase;
  let restored: App | null;

  beforeEach(async () => {
    fixture = await createBuildFixture();
    folder = await mkdtemp(join(tmpdir(), "wavesmith-backup-"));
    target = await testDatabase({ migrated: false });
    restored = null;
  });
  afterEach(async () => {
    if (restored !== null) {
      await restored.close();
      const driver = restored.ports.driver(restored.config.sandboxDriver);
      for (const { id } of await fixture.app.store.projects.list({})) await driver.remove(id, { volume: true });
    }
    await fixture.close();
    await target.close();
    await rm(folder, { recursive: true, force: true });
  });

  const backupFile = () => join(folder, "one.backup");
  const elsewhere = (name = "restored"): Config => ({
    ...fixture.app.config,
    ...{ dataDir: join(folder, name), databaseUrl: target.url },
  });

  it("restores a running build in another place, complete, and the build continues", async () => {
    const first = await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt; echo 'odd \\u0000 \"output\"'" }] });
    const tasks = [
      { id: "b", run: "echo b > b.txt" },
      { id: "c", dependsOn: ["b"], run: "echo begun; case $PWD in *.1) sleep 600;; esac; echo c > c.txt" },
    ];
    const second = await fixture.request({ tasks });
    const { store } = fixture.app;
    const isRunning = async () =>
      (await store.tasks.find({ buildId: second, key: "c" }))?.status === "running" &&
      (await store.logChunks.list({})).some(({ text }) => text.includes("begun"));
    await fixture.until(second, isRunning);
    expect(await backUp(fixture.app.config, backupFile())).toMatchObject({ projects: 1 });
    expect((await stat(backupFile())).mode & 0o777).toBe(0o600);
    expect((await readdir(fixture.app.config.dataDir)).filter((name) => name.startsWith(".backup"))).toEqual([]);

    await restoreFromBackup(elsewhere(), backupFile());
    restored = await createApp({ config: elsewhere(), warn: () => undefined });
    expect(await restored.store.installationId()).not.toBe(await store.installationId());
    expect(await restored.store.builds.get({ id: first.id })).toEqual(await store.builds.get({ id: first.id }));
    const chunks = (app: App) => app.store.logChunks.list({}, { by: "at" });
    const before = (await chunks(fixture.app)).map(({ text }) => text).join("");
    expect(before).toContain("odd");
    expect((await chunks(restored)).map(({ text }) => text).join("")).toBe(before);
    await restored.start("all");
    const app = restored;
    await expect
      .poll(async () => (await app.store.builds.get({ id: second })).status, { timeout: 60_000 })
      .toBe("completed");
    const attempts = await app.store.attempts.list({ buildId: second }, { by: "createdAt" });
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["succeeded", "lost", "succeeded"]);
    const repository = app.ports.workspace.repositoryPath(fixture.projectId as never);
    const { stdout } = await run("git", ["-C", repository, "ls-tree", "--name-only", "main"]);
    expect(stdout).toBe("a.txt\nb.txt\nc.txt\n");
    await run("git", ["-C", repository, "fsck", "--strict"]);
  });

  it("holds the uploaded source of a build that has not started, which then starts elsewhere", async () => {
    const { app } = fixture;
    // This app drives another project, so the build waits.
    const projectId = projectIdFor("default", "uploaded");
    const seed = join(folder, "seed");
    await run("git", ["init", "-q", "-b", "main", seed]);
    await writeFile(join(seed, "seed.txt"), "from far away\n");
    await run("git", ["-C", seed, "add", "."]);
    const author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    await run("git", [...author, "-C", seed, "commit", "-qm", "seed"]);
    await run("git", ["-C", seed, "bundle", "create", "-q", join(folder, "seed.bundle"), "main"]);
    const bundle = await readFile(join(folder, "seed.bundle"));
    const upload = await storeUpload(app, projectId, new Blob([bundle]).stream() as never);
    const source = uploadedSource(app, projectId, upload);
    const plan = { name: "uploaded", source, tasks: [{ id: "a", run: "test -f seed.txt; echo a > a.txt" }] };
    const event = { id: "project/build.requested:uploaded:0", data: { project: "uploaded", projectId, plan } };
    const { buildId } = await requestBuild(app.ports, event, app.config.sandboxDriver);
    await backUp(app.config, backupFile());
    await rm(join(app.config.dataDir, "uploads"), { recursive: true });

    await restoreFromBackup(elsewhere(), backupFile());
    restored = await createApp({ config: elsewhere(), warn: () => undefined });
    const { store, ports } = restored;
    const { plan: moved } = await store.builds.get({ id: buildId });
    expect(moved.source).toMatchObject({ url: join(elsewhere().dataDir, "uploads", projectId, `${upload}.git`) });
    await restored.start("all");
    await expect
      .poll(async () => (await store.builds.get({ id: buildId })).status, { timeout: 60_000 })
      .toBe("completed");
    const { stdout } = await run("git", [
      "-C",
      ports.workspace.repositoryPath(projectId),
      "ls-tree",
      "--name-only",
      "main",
    ]);
    expect(stdout).toBe("a.txt\nseed.txt\n");
  });

  it("is not restored over existing data, which it leaves alone", async () => {
    await backUp(fixture.app.config, backupFile());
    await expect(backUp(fixture.app.config, backupFile())).rejects.toThrow(/exists already/);
    const own = { ...elsewhere(), dataDir: fixture.app.config.dataDir };
    await writeFile(join(own.dataDir, "mine"), "");
    await expect(restoreFromBackup(own, backupFile())).rejects.toThrow(/is not empty/);
    const used = { ...elsewhere(), databaseUrl: fixture.app.config.databaseUrl };
    await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt" }] });
    await expect(restoreFromBackup(used, backupFile())).rejects.toThrow(/not empty/);
    expect(await fixture.app.store.builds.list({})).toHaveLength(1);
  });

  it("that is cut off, damaged, of a newer version or hostile is refused whole", async () => {
    await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt" }] });
    await backUp(fixture.app.config, backupFile());
    const bytes = await readFile(backupFile());
    const altered = async (name: string, content: Buffer): Promise<string> => {
      await writeFile(join(folder, name), content);
      return join(folder, name);
    };
    const flipped = Buffer.from(bytes);
    flipped[Math.floor(bytes.length / 2)]! ^= 1;
    const made = async (name: string, entries: Record<string, string>): Promise<string> => {
      await writeArchive(join(folder, name), async (writer) => {
        for (const [entry, text] of Object.entries(entries)) await writer.addText(entry, text);
      });
      return join(folder, name);
    };
    const manifest = { format: 1, createdAt: "2026", migrations: [], tables: [], repositories: {} };
    const hostile = (entry: string) => ({ "manifest.json": JSON.stringify(manifest), [entry]: "x" });
    const cases: [string, RegExp][] = [
      [await altered("cut", bytes.subarray(0, bytes.length - 100)), /not a whole backup/],
      [await altered("flipped", flipped), /not a whole backup/],
      [await altered("text", Buffer.from("hello")), /not a whole backup/],
      [await made("other", { "readme.txt": "x" }), /no manifest.json/],
      [await made("format", { "manifest.json": JSON.stringify({ ...manifest, format: 2 }) }), /newer version/],
      [await made("newer", { "manifest.json": JSON.stringify({ ...manifest, migrations: ["x"] }) }), /newer version/],
      [await made("outside", hostile("files/../../outside")), /newer version/],
      [await made("script", hostile("files/run.sh")), /newer version/],
      [await made("upload", hostile("uploads/../src_0123456789abcdef01234567.bundle")), /newer version/],
      [await made("repository", hostile("repositories/../x.pack")), /newer version/],
      [join(folder, "absent"), /there is no file/],
    ];
    for (const [path, message] of cases)
      await expect(restoreFromBackup(elsewhere(), path), path).rejects.toThrow(message);
    expect(await readdir(elsewhere().dataDir).catch(() => [])).toEqual([]);
    await restoreFromBackup(elsewhere(), backupFile());
  });
});
