import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { readDecisions } from "../../src/sandbox/egress/decision-log.ts";
import { createEgressDenials } from "../../src/sandbox/egress/denials.ts";
import {
  decisionsOf,
  type EgressRequest,
  removeEgress,
  startEgress,
  stateOf,
  stopEgress,
} from "../../src/sandbox/egress/egress.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { processesWith, until } from "./sandbox-driver.ts";

const projectId = "proj_a" as ProjectId;
let dataDir = "";
let request: EgressRequest;
const open: { destroy(): void }[] = [];
const servers: Server[] = [];

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "wavesmith-egress-"));
  const policy = { mode: "allowlist", hosts: ["one.example"] } as const;
  request = { dataDir, installationId: "inst_test", projectId, policy };
});
afterEach(async () => {
  for (const one of open.splice(0)) one.destroy();
  for (const server of servers.splice(0)) server.close();
  await removeEgress(request);
  rmSync(dataDir, { recursive: true, force: true });
  expect(processesWith(dataDir)).toEqual([]);
});

/** Sockets in the folder have to be reached by a short path. */
async function reach(folder: string, name: string): Promise<Socket> {
  const { openSync, closeSync } = await import("node:fs");
  const fd = openSync(folder, "r");
  const socket = connect(`/proc/self/fd/${fd}/${name}`);
  open.push(socket);
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  closeSync(fd);
  return socket;
}

async function ask(folder: string, bytes: string): Promise<string> {
  const socket = await reach(folder, "proxy.sock");
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  socket.write(bytes);
  await new Promise((resolve) => socket.once("close", resolve));
  return text;
}
const askFor = (folder: string, host: string) => ask(folder, `CONNECT ${host} HTTP/1.1\r\n\r\n`);

const proxies = () => processesWith(join(dataDir, "egress"));

/** Keeps a connection open, as a living guest does. */
async function holdAlive(folder: string): Promise<Socket> {
  const socket = await reach(folder, "alive.sock");
  socket.write("alive\n");
  socket.resume();
  return socket;
}

const program = await bundledProgram("egress-process");

function anotherProcess(asked: EgressRequest & { hang?: boolean }) {
  const child = spawn(process.execPath, [program, JSON.stringify(asked)], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, PLANTED_TOKEN: "hunter2" },
    cwd: join(import.meta.dirname, "../.."),
  });
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const folder = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("close", (code) => reject(new Error(`ended with ${code} and no answer`)));
  });
  return { folder, kill: () => child.kill("SIGKILL") && ended };
}

describe("the proxy of a sandbox", () => {
  it("is only one, however many processes ask for it at once", async () => {
    const asked = [...[1, 2, 3].map(() => startEgress(request).then(({ folder }) => folder))];
    const folders = await Promise.all([...asked, ...[1, 2].map(() => anotherProcess(request).folder)]);
    expect(new Set(folders).size).toBe(1);
    expect(proxies()).toHaveLength(1);
    expect(await askFor(folders[0]!, "two.example:443")).toMatch(/^HTTP\/1\.1 403 two\.example is not among the hosts/);
  });

  it("outlives the process that started it, and inherits none of its environment", async () => {
    const starter = anotherProcess({ ...request, hang: true });
    const folder = await starter.folder;
    await starter.kill();
    expect(await askFor(folder, "two.example:443")).toMatch(/^HTTP\/1\.1 403/);
    const [pid] = proxies();
    expect(readFileSync(`/proc/${pid}/environ`, "utf8")).toBe("");
    const uids = /^Uid:\t(\d+)\t(\d+)\t(\d+)/m
      .exec(readFileSync(`/proc/${pid}/status`, "utf8"))!
      .slice(1)
      .map(Number);
    if (process.geteuid?.() === 0) for (const uid of uids) expect(uid).not.toBe(0);
    else expect(new Set(uids)).toEqual(new Set([process.geteuid?.()]));
  });

  it("is started again in the same folder when it was killed", async () => {
    const { folder } = await startEgress(request);
    const { ino } = statSync(folder);
    const [pid] = proxies();
    process.kill(pid!, "SIGKILL");
    await until("it is gone", () => proxies().length === 0);
    expect(await startEgress(request)).toEqual({ folder });
    expect(statSync(folder).ino).toBe(ino);
    expect(await askFor(folder, "two.example:443")).toMatch(/^HTTP\/1\.1 403/);
  });

  it("ends the leftovers of a process that was killed while it started one", async () => {
    const { folder } = await startEgress(request);
    const recordPath = join(stateOf(request), "record.json");
    const record = JSON.parse(readFileSync(recordPath, "utf8"));
    const [lost] = proxies();
    writeFileSync(recordPath, JSON.stringify({ ...record, state: "starting", pid: null, pidStart: null }));
    await startEgress(request);
    expect(proxies()).toHaveLength(1);
    expect(proxies()).not.toContain(lost);
    expect(await askFor(folder, "two.example:443")).toMatch(/^HTTP\/1\.1 403/);
  });

  it("switches to another policy while open connections stay", async (context) => {
    const address = Object.values(networkInterfaces())
      .flat()
      .find((one) => one?.family === "IPv4" && !one.internal)?.address;
    if (address === undefined) {
      console.warn("SKIPPED: this machine has no network but its loopback");
      return context.skip();
    }
    const echo = createServer((socket) => socket.pipe(socket));
    servers.push(echo);
    await new Promise<void>((resolve) => echo.listen(0, address, resolve));
    const target = `${address}:${(echo.address() as { port: number }).port}`;
    const { folder } = await startEgress(request);
    expect(await askFor(folder, target)).toMatch(/^HTTP\/1\.1 403/);
    const policyOf = (...hosts: string[]): EgressRequest => ({ ...request, policy: { mode: "allowlist", hosts } });
    await startEgress(policyOf(target));
    const [pid] = proxies();
    const socket = await reach(folder, "proxy.sock");
    const lines: string[] = [];
    socket.setEncoding("utf8").on("data", (chunk: string) => lines.push(chunk));
    socket.write(`CONNECT ${target} HTTP/1.1\r\n\r\n`);
    await until("the tunnel stands", () => lines.join("").includes("200 Connection established\r\n\r\n"));
    await startEgress(policyOf("other.example"));
    expect(await askFor(folder, target)).toMatch(/^HTTP\/1\.1 403/);
    socket.write("still here");
    await until("the tunnel answers", () => lines.join("").endsWith("still here"));
    expect(proxies()).toEqual([pid]);
  });

  it("ends when its sandbox is gone, and reading its policy does not count as a sandbox", async () => {
    const { folder } = await startEgress({ ...request, firstMs: 60_000, lostMs: 300 });
    const first = await holdAlive(folder);
    const second = await holdAlive(folder);
    first.destroy();
    expect(await askFor(folder, "two.example:443")).toMatch(/^HTTP\/1\.1 403/);
    expect(proxies()).toHaveLength(1);
    second.destroy();
    await until("it has ended", () => proxies().length === 0);
  });

  it("ends when there never was a sandbox", async () => {
    await startEgress({ ...request, firstMs: 1_000, lostMs: 60_000 });
    await until("it has ended", () => proxies().length === 0);
  });

  it("ends with a stop, which keeps the log of denials and may be repeated; a removal leaves nothing", async () => {
    const { folder } = await startEgress(request);
    await askFor(folder, "two.example:443");
    await stopEgress(request);
    expect(proxies()).toEqual([]);
    expect(existsSync(join(folder, "proxy.sock"))).toBe(false);
    await stopEgress(request);
    expect(readDecisions(decisionsOf(request))).toMatchObject([{ decision: "denied", host: "two.example", port: 443 }]);
    await removeEgress(request);
    expect(existsSync(stateOf(request))).toBe(false);
    await removeEgress(request);
  });

  it("is missing where nothing is allowed, although the folder exists for other ways out", async () => {
    await startEgress(request);
    const { folder } = await startEgress({ ...request, policy: { mode: "none", hosts: [] } });
    expect(proxies()).toEqual([]);
    expect(statSync(folder).isDirectory()).toBe(true);
  });

  it("leaves another installation's alone", async () => {
    await startEgress(request);
    await stopEgress({ ...request, installationId: "inst_other" });
    expect(proxies()).toHaveLength(1);
  });

  it("works in a deep folder below one that only its owner may pass", async () => {
    const closed = join(dataDir, "closed");
    mkdirSync(closed, { mode: 0o700 });
    chmodSync(closed, 0o700);
    const deep = join(closed, ...Array(8).fill("a folder with spaces"));
    mkdirSync(deep, { recursive: true });
    const { folder } = await startEgress({ ...request, dataDir: deep });
    expect(await askFor(folder, "two.example:443")).toMatch(/^HTTP\/1\.1 403/);
    await removeEgress({ ...request, dataDir: deep });
  });

  it("hides its state from other users of this machine", async () => {
    const { folder } = await startEgress(request);
    expect(statSync(stateOf(request)).mode & 0o077).toBe(0);
    expect(statSync(folder).mode & 0o777).toBe(0o755);
  });
});

describe("denied requests", () => {
  it("are listed in the form a plan allows them, the most frequent first, from a moment on", async () => {
    const { folder } = await startEgress(request);
    await askFor(folder, "early.example:443");
    await until(
      "the clock moves on",
      () => Date.now() > new Date(readDecisions(decisionsOf(request))[0]!.at).getTime(),
    );
    const since = new Date();
    for (const host of ["rare.example:22", "often.example:443", "often.example:80", "169.254.169.254:80", "[::1]:80"]) {
      await askFor(folder, host);
    }
    const { denied } = createEgressDenials(dataDir);
    expect(await denied(projectId, since)).toEqual(["often.example", "rare.example:22"]);
    expect(await denied("proj_unknown" as ProjectId, since)).toEqual([]);
  });
});
