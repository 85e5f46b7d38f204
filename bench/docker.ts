import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProjectId, SandboxId } from "../src/domain/ids.ts";
import type { SandboxLimits } from "../src/domain/sandbox/sandbox.ts";
import { imageName } from "../src/sandbox/drivers/docker/image.ts";
import { createDockerDriver } from "../src/sandbox/drivers/docker.ts";
import type { GuestClient, SandboxDriver, SandboxSpec } from "../src/sandbox/port.ts";
import { pidNamespace, startGuest } from "../tests/contract/guest-fixture.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

const megabyte = 1_000_000;
const usualLimits: SandboxLimits = {
  cpus: 2,
  memoryBytes: 4 * 1024 ** 3,
  processes: 512,
  diskBytes: 20 * 1024 ** 3,
};

export const docker: Benchmark = {
  name: "docker",
  about: "Docker sandboxes through the driver, against the docker command itself (needs an engine and the image)",
  async run({ smoke }) {
    const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-bench-"));
    const installationId = `inst_bench${process.pid}`;
    const driver = createDockerDriver({ dataDir, installationId, environment: process.env });
    try {
      const hot = await hotPath(driver, smoke);
      return [
        ...hot,
        ...(await lifecycle(driver, smoke)),
        ...(await snapshots(driver, smoke)),
        ...(await output(driver, smoke)),
        ...(await together(driver, smoke)),
      ];
    } finally {
      for (const { projectId } of await driver.list()) await driver.remove(projectId, { volume: true });
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
};

const nameOf = (project: string): string => `proj_bench${process.pid}${project}`;

const specOf = (project: string, limits: SandboxLimits = usualLimits): SandboxSpec => ({
  projectId: nameOf(project) as ProjectId,
  sandboxId: `sbx_${project}` as SandboxId,
  tenantId: "ten_bench",
  network: { mode: "none", hosts: [] },
  limits,
});

/** Runs a program of this machine to its end, discards its output, and returns its times. */
async function run(program: string, args: readonly string[]): Promise<{ firstMs: number }> {
  const begun = performance.now();
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  let firstMs = Number.NaN;
  child.stdout.on("data", () => {
    if (Number.isNaN(firstMs)) firstMs = performance.now() - begun;
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  if (code !== 0) throw new Error(`${program} ${args.slice(0, 3).join(" ")} ended with ${code}`);
  return { firstMs };
}

const command = (argv: readonly string[]) => ({
  argv,
  // This folder is readable by everyone, which `tar` below needs.
  cwd: "repo",
  env: {},
  writable: ["repo"],
  timeoutMs: 300_000,
  maxBytes: 1_000_000,
});

async function hotPath(driver: SandboxDriver, smoke: boolean): Promise<Finding[]> {
  const { guest } = await driver.ensure(specOf("hot"));
  // The same guest in a pid namespace of this machine, so that the difference is Docker's.
  const beside = await startGuest({ isolation: "sweep", starter: pidNamespace, args: ["--contained"] });
  const content = Buffer.alloc(1_000, "x");
  await guest.writeFile("file", content);
  const median = await interleaved(smoke ? 1 : 40, {
    docker: async () => void (await run("docker", ["exec", `wavesmith_${nameOf("hot")}`, "true"])),
    exec: async () => void (await guest.exec(command(["true"]))),
    beside: async () => void (await beside.client.exec(command(["true"]))),
    spawn: async () => void (await new Promise((resolve) => spawn("true", { stdio: "ignore" }).on("close", resolve))),
    write: () => guest.writeFile("file", content),
    read: async () => void (await guest.readFile("file")),
    found: async () => void (await driver.find(specOf("hot").projectId)),
  });
  await beside.stop();
  await driver.remove(specOf("hot").projectId, { volume: true });
  const ms = { unit: "ms", floor: null } as const;
  return [
    {
      what: "exec of `true` in a Docker sandbox",
      ours: median.exec,
      unit: "ms",
      floor: { what: "docker exec", value: median.docker },
      limit: 0.1,
    },
    {
      ...ms,
      what: "the same beside one through a guest on this machine",
      ours: median.exec,
      floor: { what: "local guest", value: median.beside },
      limit: 1.6,
    },
    {
      ...ms,
      what: "the same beside a spawn on the host",
      ours: median.exec,
      floor: { what: "spawn", value: median.spawn },
      limit: null,
    },
    { ...ms, what: "write of 1 KB in a Docker sandbox", ours: median.write, limit: 2 },
    { ...ms, what: "read of 1 KB in a Docker sandbox", ours: median.read, limit: 2 },
    { ...ms, what: "finding a running sandbox", ours: median.found, limit: null },
  ];
}

async function lifecycle(driver: SandboxDriver, smoke: boolean): Promise<Finding[]> {
  const spec = specOf("life");
  const { projectId } = spec;
  // The minimum: the time until Node prints something in a container of this image.
  const bare = ["run", "--rm", "--network", "none", "--entrypoint", "node", imageName(), "-e", "console.log(1)"];
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
  };
  const median = await interleaved(smoke ? 1 : 8, {
    docker: async () => (await run("docker", bare)).firstMs,
    create: async () => {
      await driver.remove(projectId, { volume: true });
      return timed(() => driver.ensure(spec));
    },
    restart: async () => {
      await driver.ensure(spec);
      await driver.stop(projectId);
      return timed(() => driver.ensure(spec));
    },
  });
  await driver.remove(projectId, { volume: true });
  const floor = { what: "docker run of node", value: median.docker };
  return [
    { what: "a sandbox made, until its guest answers", ours: median.create, unit: "ms", floor, limit: 1.4 },
    { what: "a stopped sandbox started, until its guest answers", ours: median.restart, unit: "ms", floor, limit: 1.4 },
  ];
}

async function snapshots(driver: SandboxDriver, smoke: boolean): Promise<Finding[]> {
  const spec = specOf("pack");
  const { guest } = await driver.ensure(spec);
  const files = smoke ? 50 : 5_000;
  await fill(guest, files);
  const median = await interleaved(smoke ? 1 : 5, {
    tar: async () => {
      const script = "tar -C /workspace --exclude .guest -c . | zstd -q -3 -T0";
      await run("docker", ["exec", `wavesmith_${nameOf("pack")}`, "sh", "-c", script]);
    },
    pack: async () => {
      for await (const chunk of await driver.pack(spec.projectId, "tar.zst")) void chunk;
    },
  });
  await driver.remove(spec.projectId, { volume: true });
  const floor = { what: "tar into zstd inside", value: median.tar };
  return [{ what: `a volume of ${files} files (20 KB each) packed`, ours: median.pack, unit: "ms", floor, limit: 1.3 }];
}

/** Returns data of which half can be compressed, as in source code. */
async function fill(guest: GuestClient, files: number): Promise<void> {
  const script = `const fs=require("fs"),c=require("crypto");
    for(let i=0;i<${files};i++){const d="d"+(i%50);fs.mkdirSync(d,{recursive:true});
    fs.writeFileSync(d+"/"+i,Buffer.concat([c.randomBytes(10000),Buffer.alloc(10000,"text "+i)]))}`;
  const made = await guest.exec(command(["node", "-e", script]));
  if (made.exitCode !== 0) throw new Error(`the volume was not filled: ${made.stderr}`);
}

async function output(driver: SandboxDriver, smoke: boolean): Promise<Finding[]> {
  const spec = specOf("out");
  const { guest } = await driver.ensure(spec);
  const total = (smoke ? 3 : 300) * megabyte;
  const stage = { name: "loud", cwd: ".", env: {}, stdin: null, timeoutMs: 600_000 };
  const argv = ["sh", "-c", `head -c ${total} /dev/zero | tr '\\0' x`];
  const before = process.memoryUsage.rss();
  let most = before;
  await guest.startJob("loud", {
    stages: [{ ...stage, argv, outputLimitBytes: 2 * total }],
    writable: ["repo"],
    labels: {},
  });
  let offset = 0;
  for (let ended = false; !ended; ) {
    const part = await guest.readOutput("loud", { offset, limitBytes: 1 << 20, waitMs: 5_000 });
    offset = part.nextOffset;
    ended = part.ended && part.data.length === 0;
    most = Math.max(most, process.memoryUsage.rss());
  }
  await driver.remove(spec.projectId, { volume: true });
  if (offset !== total) throw new Error(`${offset} bytes came out, not ${total}`);
  const what = `${total / megabyte} MB of output from one process: our memory at most`;
  return [{ what, ours: (most - before) / megabyte, unit: "MB", floor: null, limit: 50 }];
}

async function together(driver: SandboxDriver, smoke: boolean): Promise<Finding[]> {
  const limits = { ...usualLimits, cpus: 0.2, memoryBytes: 512 * 1024 ** 2 };
  const specs = Array.from({ length: smoke ? 2 : 10 }, (_, at) => specOf(`many${at}`, limits));
  const begun = performance.now();
  const sandboxes = await Promise.all(specs.map((spec) => driver.ensure(spec)));
  const startedMs = performance.now() - begun;
  const answers = await Promise.all(sandboxes.map(({ guest }) => guest.exec(command(["hostname"]))));
  if (answers.some(({ exitCode }) => exitCode !== 0)) throw new Error("not every sandbox works");
  await Promise.all(specs.map(({ projectId }) => driver.remove(projectId, { volume: true })));
  const what = `${specs.length} sandboxes of 0.2 processors and 512 MB started at once`;
  return [{ what, ours: startedMs, unit: "ms", floor: null, limit: null }];
}
