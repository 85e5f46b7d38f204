import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { networkOf } from "../../src/domain/sandbox/network.ts";
import { StandardStreams } from "../../src/sandbox/drivers/docker/engine/demux.ts";
import { createDockerDriver } from "../../src/sandbox/drivers/docker.ts";
import type { SandboxDriver, SandboxSpec } from "../../src/sandbox/port.ts";
import {
  containerOf,
  dockerHarness,
  dockerOptions,
  engine,
  leftInDocker,
  smallLimits,
} from "../support/docker-harness.ts";
import { npmRegistry } from "../support/npm-registry.ts";
import { requires } from "../support/require.ts";
import { describeSandboxDriver, scriptJob, shell, specOf, until } from "./sandbox-driver.ts";

const docker = requires("docker");
if (docker) describeSandboxDriver("docker", dockerHarness);

const newProject = (): ProjectId => `proj_${randomBytes(8).toString("hex")}` as ProjectId;

describe.runIf(docker)("inside a Docker sandbox", () => {
  let dataDir = "";
  const projectId = newProject();
  let driver: SandboxDriver;
  beforeAll(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-docker-"));
    driver = createDockerDriver(dockerOptions(dataDir));
  });
  afterAll(async () => {
    for (const info of await driver.list()) await driver.remove(info.projectId, { volume: true });
    expect(await leftInDocker(dockerOptions(dataDir))).toEqual([]);
    rmSync(dataDir, { recursive: true, force: true });
  });

  const spec = (): SandboxSpec => ({ ...specOf(projectId), limits: smallLimits });
  const look = async (script: string) => (await shell((await driver.ensure(spec())).guest, script)).stdout;
  const mounted = async () =>
    (await look("cat /proc/mounts")).split("\n").map((line) => {
      const [, place = "", type, options = ""] = line.split(" ");
      return { place, type, options: options.split(",") };
    });

  /** The mounts of the host's files, on a disk or in its memory; not the container's own file systems. */
  const mountedFromHost = async () =>
    (await look("cat /proc/self/mountinfo")).split("\n").flatMap((line) => {
      const [, , , root, place = "", options = ""] = line.split(" ");
      const [type, source] = line.split(" - ")[1]?.split(" ") ?? [];
      const isPart = type === "tmpfs" && root !== "/" && !place.startsWith("/proc/");
      return source?.startsWith("/dev/") || isPart ? [{ place, options: options.split(",") }] : [];
    });

  it("uses the engine's runtime that the settings name, and says so", async () => {
    const { Runtimes } = (await engine().info()) as { Runtimes: Record<string, unknown> };
    const runtime = Object.keys(Runtimes).find((name) => name.startsWith("io.containerd.runc."))!;
    const own = createDockerDriver({ ...dockerOptions(dataDir), runtime });
    expect(await own.check()).toEqual([]);
    const other = newProject();
    const { guest, wall } = await own.ensure(specOf(other));
    expect((await shell(guest, "echo runs")).stdout).toBe("runs\n");
    expect(wall).toEqual({ isolation: "users", runtime });
    expect((await containerOf(other).inspect()).HostConfig.Runtime).toBe(runtime);
    expect((await driver.ensure(specOf(other))).wall, "replaced, as nothing runs in it").toMatchObject({
      runtime: null,
    });
    await driver.remove(other, { volume: true });
  });

  it("counts files that jobs closed to others and to themselves, once the jobs are over", async () => {
    const other = newProject();
    const { guest } = await driver.ensure(specOf(other));
    const hide = `mkdir -m 700 ../../cache/hidden && head -c 30000000 /dev/zero > ../../cache/hidden/file
mkdir closed && head -c 30000000 /dev/zero > closed/file && chmod 0 closed`;
    const job = scriptJob(hide);
    const stages = job.stages.map((stage) => ({ ...stage, cwd: "trees/hider" }));
    await guest.startJob("hider", { ...job, stages, writable: ["trees/hider", "cache"] });
    await until("the job passes", async () => (await guest.findJob("hider"))?.status === "passed");
    expect(await driver.volumeBytes(other, 20_000)).toBeGreaterThan(60_000_000);
    await driver.remove(other, { volume: true });
  });

  it("runs only its guest as root, with three capabilities", async () => {
    expect(await look("id -u; id -G | wc -w")).toMatch(/^2\d{4}\n1\n$/);
    const owners = await look("stat -c %u /proc/[0-9]* | sort -u");
    expect(owners).toMatch(/^0\n2\d{4}\n$/);
    const { HostConfig } = await containerOf(projectId).inspect();
    expect(HostConfig).toMatchObject({ CapDrop: ["ALL"], CapAdd: ["CHOWN", "SETGID", "SETUID"] });
    const ofGuest = await look("grep -h ^CapEff /proc/[0-9]*/status | sort -u");
    expect(ofGuest.match(/[0-9a-f]{16}/g)).toEqual(["0000000000000000", "00000000000000c1"]);
  });

  it("has no capability in a job, can gain none, and is under a seccomp filter", async () => {
    const status = await look("cat /proc/self/status");
    const sets = [...status.matchAll(/^Cap(?:Inh|Prm|Eff|Amb):\s*(\w+)$/gm)].map(([, bits]) => bits);
    expect(sets).toEqual(Array(4).fill("0000000000000000"));
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
    expect(status).toMatch(/^Seccomp:\s*2$/m);
    expect(await look("unshare -U true 2>&1 || echo refused; mount -t tmpfs none /mnt 2>&1 || echo refused")).toMatch(
      /refused[\s\S]*refused/,
    );
  });

  it("has a root that cannot be written, and folders in memory with a size and without devices or rights", async () => {
    expect(await look("touch /x /usr/x /etc/x /opt/wavesmith/x 2>&1; ls /x /usr/x /etc/x 2>/dev/null")).toMatch(
      /Read-only file system/,
    );
    const places = await mounted();
    expect(places.find(({ place }) => place === "/")?.options).toContain("ro");
    for (const place of ["/tmp", "/run/wavesmith"]) {
      const found = places.find((one) => one.place === place);
      expect(found, place).toMatchObject({ type: "tmpfs" });
      expect(found!.options).toEqual(expect.arrayContaining(["nosuid", "nodev", expect.stringMatching(/^size=\d+k$/)]));
    }
    expect(await look("touch /run/wavesmith/mine 2>&1; ls /run/wavesmith 2>&1; cat /workspace/.guest/* 2>&1")).toMatch(
      /Permission denied[\s\S]*Permission denied[\s\S]*Permission denied/,
    );
  });

  it("shows nothing of the host except the egress folder, which is read-only", async () => {
    const fromHost = await mountedFromHost();
    const places = fromHost.map(({ place }) => place).sort();
    expect(places).toEqual([
      "/etc/hostname",
      "/etc/hosts",
      "/etc/resolv.conf",
      "/run/wavesmith-egress",
      "/usr/sbin/docker-init",
      "/workspace",
    ]);
    const writable = fromHost.filter(({ options }) => options.includes("rw")).map(({ place }) => place);
    expect(writable).toEqual(["/workspace"]);
    expect(
      await look("touch /run/wavesmith-egress/x 2>&1; ln -s /var/run/docker.sock /run/wavesmith-egress/y 2>&1"),
    ).toMatch(/Read-only[\s\S]*Read-only/);
  });

  it("has no way to Docker", async () => {
    expect(
      await look("ls /var/run/docker.sock /run/docker.sock 2>&1; find / -xdev -name 'docker*.sock' 2>/dev/null"),
    ).not.toMatch(/^\/.*docker.*sock$/m);
    const { HostConfig } = await containerOf(projectId).inspect();
    expect(HostConfig.Binds ?? []).toEqual([]);
    expect(HostConfig).toMatchObject({ Privileged: false, PidMode: "", UTSMode: "", UsernsMode: "" });
    expect(HostConfig.Devices ?? []).toEqual([]);
  });

  it("shares no namespace with the host", async () => {
    for (const kind of ["pid", "net", "ipc", "uts", "mnt", "cgroup"]) {
      const ours = execFileSync("readlink", [`/proc/self/ns/${kind}`], { encoding: "utf8" });
      expect(await look(`readlink /proc/self/ns/${kind}`), kind).not.toBe(ours);
    }
    expect(Number(await look("ls -d /proc/[0-9]* | wc -l"))).toBeLessThan(15);
    expect(await look("cat /proc/1/comm")).toBe("docker-init\n");
    expect(await look("cat /proc/net/route | wc -l; ls /sys/class/net")).toBe("1\nlo\n");
  });

  it("is held to its limits by the kernel", async () => {
    const cgroup = async (v1: string, v2: string) =>
      (await look(`cat /sys/fs/cgroup/${v1} 2>/dev/null || cat /sys/fs/cgroup/${v2}`)).trim();
    expect(await cgroup("memory/memory.limit_in_bytes", "memory.max")).toBe(String(smallLimits.memoryBytes));
    expect(await cgroup("pids/pids.max", "pids.max")).toBe(String(smallLimits.processes));
    expect(await cgroup("cpu/cpu.cfs_quota_us", "cpu.max")).toMatch(/^100000\b/);
    const swap = await cgroup("memory/memory.memsw.limit_in_bytes", "memory.swap.max");
    expect([String(smallLimits.memoryBytes), "0"]).toContain(swap);
    expect(await look("ulimit -Hc; ulimit -Sc")).toBe("0\n0\n");
    expect(Number(await look("ulimit -Hn"))).toBeLessThanOrEqual(16_384);
    expect(await look("df -k /dev/shm | tail -1 | awk '{print $2}'")).toBe("65536\n");
  });

  it("says so when a job ran out of memory, and keeps running", async () => {
    const { guest, bootId } = await driver.ensure(spec());
    const eat = "const a=[]; for(;;) a.push(Buffer.alloc(16<<20, 1))";
    await guest.startJob("hungry", {
      ...scriptJob(""),
      stages: scriptJob("").stages.map((stage) => ({ ...stage, argv: ["node", "-e", eat] })),
    });
    const ended = await until("it ends", async () => {
      const state = await guest.findJob("hungry");
      return state?.status === "running" ? null : state;
    });
    expect(ended.stages[0]).toMatchObject({ outOfMemory: true });
    expect((await driver.find(projectId))?.bootId).toBe(bootId);
  });

  it("survives a fork bomb: others still get in, and end it", async () => {
    const { guest, bootId } = await driver.ensure(spec());
    const bomb = [
      "import os, time",
      "while True:",
      "  try:",
      "    if os.fork() == 0: time.sleep(300)",
      "  except OSError: time.sleep(0.01)",
    ].join("\n");
    await guest.startJob("bomb", scriptJob(`python3 -c '${bomb}'`));
    await until("processes run out", async () => {
      const usage = await driver.usage(projectId);
      return usage !== null && usage.processes! >= smallLimits.processes - 2;
    });
    const other = createDockerDriver(dockerOptions(dataDir));
    const found = await other.ensure(spec());
    expect(found.bootId).toBe(bootId);
    expect((await found.guest.cancelJob("bomb", { reason: "test", graceMs: 0 })).status).toBe("cancelled");
    expect((await driver.ensure(spec())).bootId).toBe(bootId);
  });

  it("follows no planted link that leads out of the volume", async () => {
    const { guest } = await driver.ensure(spec());
    await shell(guest, "ln -sfn /etc lure; ln -sfn /run/wavesmith-egress way; ln -sfn /etc/passwd names");
    for (const path of ["work/lure/passwd", "work/names", "work/way/../../etc/passwd"]) {
      await expect(guest.readFile(path), path).rejects.toMatchObject({ code: "sandbox-path" });
    }
    await expect(guest.writeFile("work/way/proxy.sock", "mine")).rejects.toMatchObject({ code: "sandbox-path" });
  });

  it("continues when the space it may write is full", async () => {
    const { guest, bootId } = await driver.ensure(spec());
    const full = await shell(guest, "head -c 200000000 /dev/zero > /tmp/full; echo $?; rm -f /tmp/full");
    expect(full.stdout + full.stderr).toMatch(/No space left on device/);
    expect(await look("echo fine")).toBe("fine\n");
    expect((await driver.find(projectId))?.bootId).toBe(bootId);
  });

  it("says so when its volume is full, still answers, and continues when there is space again", async () => {
    const small = newProject();
    const { installationId } = dockerOptions(dataDir);
    await engine().createVolume({
      Name: `wavesmith_workspace_${small}`,
      Labels: { "io.wavesmith.installation": installationId, "io.wavesmith.project": small },
      DriverOpts: { type: "tmpfs", device: "tmpfs", o: "size=16m,uid=10001,gid=10001" },
    });
    const { guest, bootId } = await driver.ensure({ ...spec(), projectId: small });
    await guest.writeFile("kept", "before");
    expect((await shell(guest, "head -c 100M /dev/zero > full")).stderr).toMatch(/No space left on device/);
    const full = { code: "environment", message: expect.stringMatching(/no space left/i) };
    await expect(guest.writeFile("more", Buffer.alloc(100_000))).rejects.toMatchObject(full);
    await expect(guest.writeFile("kept", Buffer.alloc(100_000))).rejects.toMatchObject(full);
    await expect(guest.startJob("writer", scriptJob("echo never"))).rejects.toMatchObject(full);
    expect((await guest.readFile("kept"))?.toString()).toBe("before");
    expect((await guest.list(".")).map(({ path }) => path)).toEqual(["kept", "work"]);
    expect((await driver.find(small))?.bootId).toBe(bootId);
    expect(await driver.volumeBytes(small, 10_000)).toBeGreaterThan(15_000_000);
    await guest.remove("work/full");
    await guest.startJob("writer", scriptJob("echo now > more"));
    const ended = await until("it ends", async () => {
      const state = await guest.findJob("writer");
      return state?.status === "running" ? null : state;
    });
    expect(ended.status).toBe("passed");
    expect((await guest.readFile("work/more"))?.toString()).toBe("now\n");
    await driver.remove(small, { volume: true });
  });

  it("has its volume archived while it runs, and the archiving ends when nobody wants it any more", async () => {
    const packed = newProject();
    const { guest } = await driver.ensure(specOf(packed));
    await shell(guest, "head -c 300M /dev/urandom > big");
    const archive = await driver.pack(packed, "tar.gz");
    const begun = new Promise((resolve) => archive.once("readable", resolve));
    archive.on("error", () => undefined);
    await begun;
    const filters = { label: [`io.wavesmith.project=${packed}`, "io.wavesmith.role=archive"] };
    const helpers = () => engine().listContainers({ all: true, filters });
    expect(await helpers()).toHaveLength(1);
    archive.destroy();
    await until("nothing packs any more", async () => (await helpers()).length === 0);
    expect((await driver.find(packed))?.sandboxId).toBe(specOf(packed).sandboxId);
    await driver.remove(packed, { volume: true });
  });

  it("continues from where somebody paused it by hand", async () => {
    const { bootId } = await driver.ensure(spec());
    await containerOf(projectId).pause();
    expect((await driver.ensure(spec())).bootId).toBe(bootId);
    await containerOf(projectId).pause();
    await driver.stop(projectId);
    expect(await driver.list()).toMatchObject([{ projectId, state: "stopped" }]);
  });

  const registry = docker ? npmRegistry() : null;
  if (docker && registry === null) console.warn("SKIPPED: this machine reaches no npm registry");
  it.runIf(registry !== null)("reaches the hosts of an allowlist, by name and only through our proxy", async () => {
    const { host } = new URL(registry!);
    const allowed = { ...spec(), network: networkOf({ network: { allow: [host] } }) };
    const { guest } = await driver.ensure(allowed);
    const status = (address: string, more = "") =>
      `curl -s -o /dev/null -w '%{http_code} ' ${more} ${address} || echo no`;
    const answered = await shell(guest, `${status(`${registry}is-number`)}; ${status("http://denied.example/")}`);
    expect(answered.stdout).toBe("200 403 ");
    const direct = [status(`${registry}is-number`, "--noproxy '*' -m 5"), status("http://169.254.169.254/", "-m 5")];
    expect((await shell(guest, direct.join("; "))).stdout).toBe("000 no\n403 ");
    expect((await shell(guest, "ls /sys/class/net")).stdout).toBe("lo\n");
  });

  it("never touches the resources of another installation", async () => {
    await driver.ensure(spec());
    const stranger = createDockerDriver({ ...dockerOptions(dataDir), installationId: "inst_stranger" });
    await expect(stranger.ensure(spec())).rejects.toMatchObject({ code: "conflict" });
    await expect(stranger.remove(projectId, { volume: true })).rejects.toMatchObject({ code: "conflict" });
    expect(await stranger.list()).toEqual([]);
    expect(await driver.find(projectId)).not.toBeNull();
  });

  it("is started by the engine's own runtime", async () => {
    const { HostConfig } = await containerOf(projectId).inspect();
    expect(HostConfig.Runtime).toBe(((await engine().info()) as { DefaultRuntime: string }).DefaultRuntime);
  });
});

describe("the streams of a container", () => {
  const frame = (kind: number, text: string | Buffer): Buffer => {
    const header = Buffer.alloc(8);
    header.writeUInt8(kind, 0);
    header.writeUInt32BE(Buffer.byteLength(text), 4);
    return Buffer.concat([header, Buffer.from(text)]);
  };
  const socketOf = (stream: PassThrough) => stream as unknown as ConstructorParameters<typeof StandardStreams>[0];

  it("are taken apart wherever their pieces are cut", async () => {
    const whole = Buffer.concat([frame(1, "one "), frame(2, "complaint"), frame(1, ""), frame(1, "two")]);
    for (const size of [1, 3, 8, 13, whole.length]) {
      const socket = new PassThrough();
      const streams = new StandardStreams(socketOf(socket));
      for (let at = 0; at < whole.length; at += size) socket.write(whole.subarray(at, at + size));
      socket.end();
      let text = "";
      for await (const chunk of streams) text += String(chunk);
      expect([text, streams.complaint()]).toEqual(["one two", "complaint"]);
    }
  });

  it("are read only as far as the reader asks", async () => {
    const socket = new PassThrough({ highWaterMark: 1024 });
    const streams = new StandardStreams(socketOf(socket));
    let written = 0;
    while (socket.write(frame(1, Buffer.alloc(64 * 1024)))) written += 1;
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(streams.readableLength).toBeLessThanOrEqual(256 * 1024);
    expect(written).toBeLessThan(10);
    streams.destroy();
  });
});

describe("without an engine that answers", () => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-engineless-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const driverAt = (path: string) =>
    createDockerDriver({
      dataDir: folder,
      installationId: "inst_none",
      environment: { DOCKER_HOST: `unix://${path}` },
    });

  it("says that there is no engine, and what to type", async () => {
    const driver = driverAt(join(folder, "nothing.sock"));
    const failure = await driver.find(newProject()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "sandbox-unavailable", retryable: true });
    expect(failure).toMatchObject({
      message: expect.stringContaining("nothing.sock"),
      remedy: expect.stringMatching(/docker.*DOCKER_HOST=unix:.*nothing\.sock/),
    });
    expect(await driver.check()).toHaveLength(1);
  });

  it.runIf(process.geteuid?.() === 0)("says that this user may not use it, and what to type", () => {
    const path = join(folder, "closed.sock");
    const server = createServer();
    server.listen(path);
    try {
      const program = join(folder, "ask.mjs");
      const source = new URL("../../src/sandbox/drivers/docker/engine/engine.ts", import.meta.url).href;
      writeFileSync(
        program,
        `import(${JSON.stringify(source)}).then(async ({ engineProblem }) => console.log(JSON.stringify(await engineProblem({ DOCKER_HOST: ${JSON.stringify(`unix://${path}`)} }))))`,
      );
      execFileSync("chmod", ["755", folder]);
      execFileSync("chmod", ["600", path]);
      const prefix = [
        "--reuid",
        "1234",
        "--regid",
        "1234",
        "--clear-groups",
        process.execPath,
        "--import",
        "tsx",
        program,
      ];
      const output = execFileSync("setpriv", prefix, { encoding: "utf8", cwd: process.cwd() });
      expect(JSON.parse(output)).toMatchObject({
        what: expect.stringContaining("may not use"),
        remedy: expect.stringContaining("docker"),
      });
    } finally {
      server.close();
    }
  });

  it("gives up on one that hangs, and names it", async () => {
    const path = join(folder, "mute.sock");
    const server = createServer((socket) => void socket.on("error", () => undefined));
    await new Promise<void>((resolve) => server.listen(path, resolve));
    try {
      const failure = await driverAt(path)
        .find(newProject())
        .catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: "sandbox-unavailable", message: expect.stringContaining(path) });
    } finally {
      server.close();
    }
  }, 90_000);
});
