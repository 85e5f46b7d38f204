import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ProjectId, SandboxId } from "../../src/domain/ids.ts";
import { createLocalDriver } from "../../src/sandbox/drivers/local.ts";
import type { ExecResult, GuestClient, SandboxDriver } from "../../src/sandbox/port.ts";
import type { Workspace } from "../../src/workspace/port.ts";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import { requires } from "../support/require.ts";
import { author, someDate } from "../support/workspace-fixture.ts";
import { specOf } from "./sandbox-driver.ts";

const projectId = "proj_sandboxed" as ProjectId;
const treePath = "trees/bld_x/api.1";
const ref = "refs/heads/wavesmith/bld_x/task/api/1";

// Tests that other suites run on a plain folder, here once through the real guest, with the jobs'
// isolation.
describe.runIf(requires("bubblewrap")).each([true, false])("in a real sandbox (unsafe: %s)", (unsafe) => {
  const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-sandboxed-"));
  const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/" };
  let driver: SandboxDriver;
  let guest: GuestClient;
  let workspace: Workspace;
  let base: string;

  beforeAll(async () => {
    driver = createLocalDriver({ unsafe, dataDir, installationId: "inst_test", readOnly: [], env });
    guest = (await driver.ensure({ ...specOf(projectId), sandboxId: "sbx_test" as SandboxId })).guest;
    workspace = createWorkspace({ dataDir, env: process.env });
    base = await workspace.prepare(projectId, { kind: "empty" }, someDate);
  });
  afterAll(async () => {
    await driver.remove(projectId, { volume: true });
    rmSync(dataDir, { recursive: true, force: true });
  });

  /** A job of an agent: it may write to its own tree. */
  const inTree = (script: string, path = treePath): Promise<ExecResult> =>
    guest.exec({
      argv: ["sh", "-ec", script],
      cwd: path,
      env: {},
      writable: [path],
      timeoutMs: 60_000,
      maxBytes: 1 << 20,
    });
  const open = (path: string, sha: string) =>
    workspace.openTree({ projectId, guest, treePath: path, sha, reuse: false });
  const keep = (path: string, to: string) =>
    workspace.keepTree({ projectId, guest, treePath: path, base, message: "Work", author, date: someDate, ref: to });

  test("a tree is opened, worked in with git, kept, joined, synced and closed", async () => {
    await open(treePath, base);
    const worked = await inTree(`
      echo mine > file.txt
      mkdir -p nested shut && chmod 755 . && echo in > shut/in && chmod 000 shut
      git -c init.defaultBranch=x init -q nested && echo n > nested/n.txt
      git add file.txt && git commit -q -m "Agent's own" && git log --oneline | wc -l`);
    expect(worked).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("2") });
    const kept = await keep(treePath, ref);
    expect(kept.changed.map((change) => change.path)).toEqual(["file.txt", "nested/n.txt", "shut/in"]);
    expect(kept.refused).toEqual([expect.stringMatching(/^nested: /)]);
    const branches = [{ taskKey: "api", title: "Api", commit: kept.commit! }];
    const message = () => "Join";
    const joined = await workspace.join({ projectId, base, branches, generated: [], date: someDate, author, message });
    await workspace.syncVolume(projectId, guest, joined.head);
    expect((await guest.readFile("repo/file.txt"))?.toString()).toBe("mine\n");
    await open("trees/bld_x/gate-1", joined.head);
    expect(await inTree("cat file.txt; git status --porcelain", "trees/bld_x/gate-1")).toMatchObject({
      stdout: "mine\n",
    });
    for (const path of [treePath, "trees/bld_x/gate-1"]) await workspace.closeTree(guest, path);
    expect(await guest.stat(treePath)).toBeNull();
  });

  test("a lost volume is rebuilt when a tree is opened", async () => {
    await guest.remove("repo", { recursive: true });
    await open("trees/bld_x/web.1", base);
    expect(await inTree("git log --oneline | wc -l", "trees/bld_x/web.1")).toMatchObject({ exitCode: 0 });
    expect((await keep("trees/bld_x/web.1", `${ref}-web`)).commit).toBeNull();
  });

  test.runIf(!unsafe)(
    "a job reaches neither the joined tree's repository nor the repositories kept for its own",
    async () => {
      await open("trees/bld_x/evil.1", base);
      const tries = ["repo/.git/config", "keep/planted", "trees/bld_x/web.1/planted", "sync"];
      for (const path of tries) {
        const tried = await inTree(`echo x > "../../../${path}"`, "trees/bld_x/evil.1");
        expect(tried.exitCode, path).not.toBe(0);
      }
    },
  );

  test("ten tasks at once are opened and kept", async () => {
    const tasks = Array.from({ length: 10 }, (_, index) => `trees/bld_y/t${index}.1`);
    const kept = await Promise.all(
      tasks.map(async (path) => {
        await open(path, base);
        await inTree('basename "$PWD" > "$(basename "$PWD").txt"', path);
        return keep(path, `refs/heads/wavesmith/${path}`);
      }),
    );
    expect(kept.map((one) => one.changed.length)).toEqual(tasks.map(() => 1));
  });
});
