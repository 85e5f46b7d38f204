import { closeSync, constants, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import { ended, type GuestFixture, job, outcome, outputOf, run, shell, startGuest } from "./guest-fixture.ts";

describe.runIf(requires("bubblewrap"))("a job in bubblewrap", () => {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation: "bubblewrap" });
  });
  afterAll(async () => guest.stop());
  const said = async (key: string, script: string, writable: string[] = []): Promise<string> => {
    await guest.client.startJob(key, { ...job(shell(script)), writable });
    await outcome(guest.client, key);
    return outputOf(guest.client, key);
  };

  it("writes where it may and nowhere else on the volume", async () => {
    mkdirSync(join(guest.root, "trees/other"), { recursive: true });
    const script =
      "touch trees/mine/a && echo yes; touch trees/other/a || echo no; touch b || echo no; rm -rf trees/other || echo no";
    expect((await said("writes", script, ["trees/mine"])).match(/^(yes|no)$/gm)).toEqual(["yes", "no", "no", "no"]);
    expect(readdirSync(join(guest.root, "trees/mine"))).toEqual(["a"]);
  });

  it("sees neither the guest's records nor its socket", async () => {
    const script = `ls -A ${guest.root}/.guest; ls -A ${join(guest.folder, "run")}; touch ${guest.root}/.guest/x; echo end`;
    expect(await said("hidden", script, [""])).toMatch(/^(ls: cannot access.*\n|touch: .*\n)*end\n$/);
    expect(readdirSync(join(guest.root, ".guest"))).not.toContain("x");
  });

  it("has only the environment it was given, also in /proc of the first process", async () => {
    const text = await said("environment", "tr '\\0' '\\n' < /proc/1/environ; echo --; env | sort");
    const [first, own = ""] = text.split("--\n");
    expect(first).toBe("");
    expect(own.match(/^\w+(?==)/gm)).toEqual(["HOME", "LANG", "PATH", "PWD", "TMPDIR", "WAVESMITH_PROGRAMS"]);
  });

  it("sees only its own processes and cannot create namespaces", async () => {
    const text = await said(
      "processes",
      "ls /proc | grep -c '^[0-9]'; unshare --user true 2>/dev/null || echo refused",
    );
    const [count = "", refused] = text.trim().split("\n");
    expect(Number(count)).toBeLessThan(6);
    expect(refused).toBe("refused");
  });

  it("has a /tmp that other jobs do not see and that is gone with it", async () => {
    await said("tmp", "echo mine > /tmp/mine; cat /tmp/mine; ls -d $HOME");
    expect(await outputOf(guest.client, "tmp")).toBe("mine\n/tmp/home\n");
    expect(await said("tmp-other", "ls /tmp")).not.toContain("mine");
    expect(readdirSync(join(guest.root, ".guest/scratch")).filter((name) => !name.startsWith("pipe-"))).toEqual([]);
  });

  it("cannot write through a symlink that another job left in place of its folder", async () => {
    await run(guest.client, "link", shell("mkdir -p trees; ln -s ../.guest trees/link"));
    await expect(
      guest.client.startJob("through", { ...job(shell("true")), writable: ["trees/link"] }),
    ).rejects.toMatchObject({
      code: "sandbox-path",
    });
  });
});

describe.runIf(requires("bubblewrap"))("a guest in an outer bubblewrap, on a small disk", () => {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation: "bubblewrap", tmpfsBytes: 4 * 1024 * 1024 });
  });
  afterAll(async () => guest.stop());

  it("runs jobs as an ordinary user and says where the volume is", async () => {
    expect((await guest.client.health()).workspaceRoot).toBe("/workspace");
    await run(guest.client, "inside", shell("pwd; ls /run/wavesmith; touch here && ls"));
    expect(await outputOf(guest.client, "inside")).toBe("/workspace\nhere\n");
  });

  it("fails a job when there is no space for its output, says so, and keeps running", async () => {
    const { client } = guest;
    const state = await run(client, "too-much", shell("head -c 20000000 /dev/zero", { outputLimitBytes: 100_000_000 }));
    expect(state.status).toBe("failed");
    expect(state.stages[0]?.error).toMatch(/output could not be written: .*no space/i);
    await expect(client.writeFile("more", Buffer.alloc(8 * 1024 * 1024))).rejects.toMatchObject({
      code: "environment",
    });
    await client.forgetJob("too-much");
    expect((await run(client, "after", shell("echo fine"))).status).toBe("passed");
  });

  it("refuses a job when there is no space even for its record, and accepts it once there is", async () => {
    const { client } = guest;
    await run(client, "fill", shell("head -c 20000000 /dev/zero > filler"));
    await expect(client.startJob("no-room", job(shell("true")))).rejects.toMatchObject({ code: "environment" });
    expect(await client.findJob("no-room")).toBeNull();
    await client.remove("filler");
    expect((await run(client, "no-room", shell("true"))).status).toBe("passed");
  });

  it("fails a job when its end cannot be recorded, and says so", async () => {
    const { client } = guest;
    const state = await run(client, "no-record", shell("head -c 20000000 /dev/zero > filler 2>/dev/null; true"));
    await client.remove("filler");
    expect(state.status).toBe("failed");
    expect(state.stages[0]?.error).toMatch(/record could not be written: .*no space/i);
  });
});

describe("a guest that inherits an open folder", () => {
  it("can listen in it, and passes it on to no job", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
    mkdirSync(join(folder, "run"));
    const inherited = openSync(join(folder, "run"), constants.O_RDONLY | constants.O_DIRECTORY);
    const guest = await startGuest({ isolation: "sweep", folder, inherited });
    closeSync(inherited);
    try {
      await run(guest.client, "descriptors", shell("ls /proc/self/fd"));
      expect((await outputOf(guest.client, "descriptors")).trim().split("\n")).toEqual(["0", "1", "2", "3"]);
    } finally {
      await guest.stop();
    }
  });
});

describe("a guest without namespaces", () => {
  const temporaryFolders = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith("wavesmith-guest-"));
  const of = (guest: GuestFixture): string[] =>
    temporaryFolders().filter((name) => name.startsWith(`wavesmith-guest-${guest.process.pid}-`));

  it("removes the temporary files of guests that were killed, and of no other", async () => {
    const killed = await startGuest({ isolation: "sweep" });
    const living = await startGuest({ isolation: "sweep" });
    try {
      expect([of(killed).length, of(living).length]).toEqual([1, 1]);
      await ended(killed.process, "SIGKILL");
      const next = await startGuest({ isolation: "sweep" });
      expect([of(killed).length, of(living).length, of(next).length]).toEqual([0, 1, 1]);
      await next.stop();
      expect(of(next)).toEqual([]);
    } finally {
      await killed.stop();
      await living.stop();
    }
  });

  it("continues when somebody tidies up the system's temporary files", async () => {
    const guest = await startGuest({ isolation: "sweep" });
    try {
      await run(guest.client, "before", shell("echo before"));
      for (const name of of(guest)) rmSync(join(tmpdir(), name), { recursive: true });
      await run(guest.client, "after", shell("touch $TMPDIR/x ~/y && echo after"));
      expect(await outputOf(guest.client, "after")).toBe("after\n");
    } finally {
      await guest.stop();
    }
  });
});
