import { afterEach, describe, expect, it } from "vitest";
import { connectEngine } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// Containers in which each job has its own user: what jobs share on purpose, and volumes from
// earlier versions.

describe.runIf(requires("docker"))("the users of jobs in Docker", () => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  });
  const gates = { testing: false, critic: false, integration: false } as const;
  const guestOf = async () => (await fixture.app.ports.driver("docker").find(fixture.projectId as never))!.guest;

  it("share a wave's tree, even files that one of them closed to others, and a cache", async () => {
    fixture = await createBuildFixture({ sandbox: "docker" });
    const build = await fixture.build({
      isolation: "shared",
      limits: { maxParallelTasks: 2 },
      gates,
      tasks: [
        {
          id: "one",
          writes: ["one/**"],
          run: `umask 077; mkdir one; id -u > one/user; mktemp -p /tmp moved.XXXX > name; mv "$(cat name)" one/moved; rm name
mkdir -p /workspace/cache/packages; echo kept > /workspace/cache/packages/file; touch /workspace/cache/one`,
        },
        {
          id: "two",
          writes: ["two/**"],
          run: `until test -e /workspace/cache/one; do sleep 0.05; done
mkdir two; id -u > two/user; cat /workspace/cache/packages/file > two/read || echo closed > two/read`,
        },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const files = (await fixture.git("ls-tree", "-r", "--name-only", "main")).trim().split("\n");
    expect(files).toEqual(["one/moved", "one/user", "two/read", "two/user"]);
    const users = await Promise.all(["one", "two"].map((name) => fixture.git("show", `main:${name}/user`)));
    expect(new Set(users).size).toBe(2);
  }, 120_000);

  it("take over a volume that belonged to one user, homes and hand-over folders included", async () => {
    fixture = await createBuildFixture({ sandbox: "docker" });
    const first = await fixture.build({ gates, tasks: [{ id: "a", run: "echo a > a; mkdir -p /workspace/cache/x" }] });
    expect(first.status).toBe("completed");
    const driver = fixture.app.ports.driver("docker");
    await driver.stop(fixture.projectId as never);
    const docker = connectEngine(process.env);
    const old = await docker.createContainer({
      Image: "wavesmith-sandbox:0.1.0",
      User: "0:0",
      Entrypoint: [
        "sh",
        "-c",
        "mkdir -p /workspace/homes /workspace/trees; chown -R 10001:10001 /workspace; chmod 700 /workspace",
      ],
      Cmd: [],
      Labels: { "io.wavesmith.installation": "trial" },
      HostConfig: {
        Mounts: [{ Type: "volume", Source: `wavesmith_workspace_${fixture.projectId}`, Target: "/workspace" }],
      },
    });
    await old.start();
    await old.wait();
    await old.remove({ force: true });
    const again = await fixture.build({
      gates,
      tasks: [{ id: "b", run: "cat /workspace/repo/a > b; touch /workspace/cache/x/mine" }],
    });
    expect([again.status, again.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:b")).toBe("a\n");
    const owners = await (await guestOf()).exec({
      argv: ["sh", "-c", "stat -c '%U %a %n' /workspace /workspace/trees /workspace/homes /workspace/repo"],
      cwd: ".",
      env: {},
      writable: [],
      timeoutMs: 10_000,
      maxBytes: 4_096,
    });
    expect(owners.stdout).toContain("root 711 /workspace\n");
    expect(owners.stdout).toContain("root 711 /workspace/trees\n");
  }, 120_000);
});
