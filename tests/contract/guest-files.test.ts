import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import { type GuestFixture, type IsolationName, processesSaying, sleepToken, startGuest } from "./guest-fixture.ts";

describe("files of a guest", () => {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation: "sweep" });
    writeFileSync(join(guest.folder, "outside.txt"), "secret");
    symlinkSync(guest.folder, join(guest.root, "way-out"));
    symlinkSync("../outside.txt", join(guest.root, "link-out"));
  });
  afterAll(async () => guest.stop());

  it("are read as they were written, in folders created on the way", async () => {
    const { client } = guest;
    const data = Buffer.from([0, 255, 10, 13, 200]);
    await client.writeFile("a/b/ü c.bin", data, { mode: 0o750 });
    expect(await client.readFile("a/b/ü c.bin")).toEqual(data);
    expect(await client.stat("a/b/ü c.bin")).toMatchObject({
      path: "a/b/ü c.bin",
      type: "file",
      sizeBytes: 5,
      mode: 0o750,
    });
    await client.writeFile("a/b/ü c.bin", "shorter");
    expect((await client.stat("a/b/ü c.bin"))?.mode).toBe(0o750);
    expect(await client.readFile("nothing/here")).toBeNull();
    expect(await client.stat("nothing")).toBeNull();
    await client.writeFile("empty", "");
    expect(await client.readFile("empty")).toEqual(Buffer.alloc(0));
  });

  it("refuse a large body so that its sender reads why, even if it sends on", async () => {
    const socket = connect(guest.socket);
    const faults: Error[] = [];
    socket.on("error", (error) => faults.push(error));
    const size = 32 * 1024 * 1024;
    socket.write(`PUT /v1/files?path=../x HTTP/1.1\r\nHost: guest\r\nContent-Length: ${size}\r\n\r\n`);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 400 .*connection: close.*"code":"path"/is);
    const chunk = Buffer.alloc(1024 * 1024);
    for (let sent = 0; sent < size; sent += chunk.length)
      await new Promise<void>((resolve) => socket.write(chunk, () => resolve()));
    await once(socket, "close");
    expect(faults).toEqual([]);
  });

  it("are listed by name, without the guest's own folder", async () => {
    const { client } = guest;
    for (const name of ["list/c", "list/a", "list/b/deep"]) await client.writeFile(name, name);
    expect((await client.list("list")).map((each) => `${each.path} ${each.type}`)).toEqual([
      "list/a file",
      "list/b directory",
      "list/c file",
    ]);
    expect((await client.list("")).map((each) => each.path)).not.toContain(".guest");
    await expect(client.list("nowhere")).rejects.toMatchObject({ code: "not-found" });
  });

  it("cannot be outside the volume, not even through symlinks", async () => {
    const { client } = guest;
    for (const path of ["../outside.txt", "/etc/passwd", "way-out/outside.txt", "a/../../outside.txt", "link-out"]) {
      await expect(client.readFile(path), path).rejects.toMatchObject({ code: "sandbox-path" });
    }
    for (const path of ["../new.txt", "way-out/new.txt", "way-out/deep/new.txt"]) {
      await expect(client.writeFile(path, "x"), path).rejects.toMatchObject({ code: "sandbox-path" });
      await expect(client.remove(path, { recursive: true }), path).rejects.toMatchObject({ code: "sandbox-path" });
    }
    await expect(client.list("way-out")).rejects.toMatchObject({ code: "sandbox-path" });
    await expect(client.pack("way-out")).rejects.toMatchObject({ code: "sandbox-path" });
    expect(readdirSync(guest.folder).sort()).toEqual(["cache", "outside.txt", "run", "volume"]);
  });

  it("replace a symlink instead of being written through it", async () => {
    await guest.client.writeFile("link-out", "mine");
    expect(lstatSync(join(guest.root, "link-out")).isFile()).toBe(true);
    expect(readFileSync(join(guest.folder, "outside.txt"), "utf8")).toBe("secret");
  });

  it("do not include the guest's own files", async () => {
    const { client } = guest;
    symlinkSync(".guest", join(guest.root, "own"));
    for (const path of [".guest/jobs", "./.guest/x", ".guest", "own/jobs"]) {
      await expect(client.list(path), path).rejects.toMatchObject({ code: "sandbox-path" });
      await expect(client.writeFile(`${path}/x`, ""), path).rejects.toMatchObject({ code: "sandbox-path" });
      if (path !== "own/jobs")
        await expect(client.remove(path, { recursive: true })).rejects.toMatchObject({ code: "sandbox-path" });
    }
    await expect(client.remove("", { recursive: true })).rejects.toMatchObject({ code: "sandbox-path" });
  });

  it("are written only while their ETag is the expected one", async () => {
    const { client } = guest;
    await client.writeFile("guarded", "1", { ifMatch: null });
    await expect(client.writeFile("guarded", "2", { ifMatch: null })).rejects.toMatchObject({ code: "conflict" });
    const etag = (await client.stat("guarded"))?.etag ?? "";
    await client.writeFile("guarded", "2", { ifMatch: etag });
    await expect(client.writeFile("guarded", "3", { ifMatch: etag })).rejects.toMatchObject({ code: "conflict" });
    await expect(client.writeFile("absent", "3", { ifMatch: etag })).rejects.toMatchObject({ code: "conflict" });
    expect((await client.readFile("guarded"))?.toString()).toBe("2");
    const tries = Array.from({ length: 10 }, (_, index) => client.writeFile("race", String(index), { ifMatch: null }));
    const settled = await Promise.allSettled(tries);
    expect(settled.filter((each) => each.status === "fulfilled")).toHaveLength(1);
  });

  it("are read whole or not at all", async () => {
    const { client } = guest;
    await client.writeFile("large", Buffer.alloc(200_000));
    await expect(client.readFile("large", { maxBytes: 199_999 })).rejects.toMatchObject({ code: "guest-refused" });
    expect((await client.readFile("large", { maxBytes: 200_000 }))?.length).toBe(200_000);
    await expect(client.readFile("list")).rejects.toMatchObject({ code: "conflict" });
  });

  it("are removed by several callers at once, and none fails", async () => {
    const { client } = guest;
    const folder = join(guest.root, "removed/deep");
    mkdirSync(folder, { recursive: true });
    for (let file = 0; file < 300; file += 1) writeFileSync(join(folder, `${file}`), "");
    await Promise.all(Array.from({ length: 8 }, () => client.remove("removed", { recursive: true })));
    expect(await client.stat("removed")).toBeNull();
    await client.writeFile("single", "1");
    await Promise.all(Array.from({ length: 8 }, () => client.remove("single")));
    expect(await client.stat("single")).toBeNull();
  });

  it("are removed, and removing a missing file is not an error", async () => {
    const { client } = guest;
    await client.writeFile("gone/deep/x", "");
    await expect(client.remove("gone")).rejects.toMatchObject({ code: "conflict" });
    await client.remove("gone", { recursive: true });
    expect(await client.stat("gone")).toBeNull();
    await client.remove("gone", { recursive: true });
    await client.remove("gone/deep/x");
  });

  it("can be requested together, each with its own answer or failure", async () => {
    const { client } = guest;
    await client.writeFile("together/read", "as it is");
    await client.writeFile("together/large", Buffer.alloc(300_000));
    const [read, absent, found, written, outside, large, ports, removed] = await Promise.allSettled([
      client.readFile("together/read", { maxBytes: 100 }),
      client.readFile("together/absent", { maxBytes: 100 }),
      client.stat("together/read"),
      client.writeFile("together/written", "new"),
      client.stat("../outside.txt"),
      client.readFile("together/large", { maxBytes: 1_000 }),
      client.allocatePorts(2),
      client.remove("together", {}),
    ]);
    expect([read, absent, written]).toMatchObject([
      { value: Buffer.from("as it is") },
      { value: null },
      { value: undefined },
    ]);
    expect(found).toMatchObject({ value: { path: "together/read", type: "file", sizeBytes: 8 } });
    expect(outside).toMatchObject({ reason: { code: "sandbox-path" } });
    expect(large).toMatchObject({ reason: { code: "guest-refused" } });
    expect(new Set((ports as PromiseFulfilledResult<number[]>).value).size).toBe(2);
    expect(removed).toMatchObject({ reason: { code: "conflict" } });
    expect(String(await client.readFile("together/written"))).toBe("new");
  });

  it("do not make a reader wait for a FIFO", async () => {
    await new Promise((resolve) => spawn("mkfifo", [join(guest.root, "fifo")]).once("exit", resolve));
    await expect(guest.client.readFile("fifo")).rejects.toMatchObject({ code: "sandbox-path" });
  });
});

describe.runIf(requires("bubblewrap"))("commands of a guest with bubblewrap", () => suite("bubblewrap"));
describe("commands of a guest with sweeps", () => suite("sweep"));

function suite(isolation: IsolationName): void {
  let guest: GuestFixture;
  beforeAll(async () => {
    guest = await startGuest({ isolation });
  });
  afterAll(async () => guest.stop());
  const exec = (script: string, change: { stdin?: string; timeoutMs?: number; maxBytes?: number; cwd?: string } = {}) =>
    guest.client.exec({
      argv: ["sh", "-c", script],
      cwd: "",
      env: { NAME: "value" },
      writable: [""],
      timeoutMs: 20_000,
      maxBytes: 100_000,
      ...change,
    });

  it("returns both streams, the exit code and whether they were truncated", async () => {
    const result = await exec("cat; echo $NAME; echo err >&2; exit 7", { stdin: "in " });
    expect(result).toMatchObject({
      exitCode: 7,
      signal: null,
      stdout: "in value\n",
      stderr: "err\n",
      truncated: false,
    });
    const long = await exec("head -c 50000000 /dev/zero", { maxBytes: 10 });
    expect(long).toMatchObject({ exitCode: 0, truncated: true });
    expect(long.stdout.length).toBe(10);
  });

  it("returns 127 for a missing command and refuses a missing folder", async () => {
    const { client } = guest;
    const missing = { argv: ["no-such"], cwd: "", env: {}, writable: [], timeoutMs: 1_000, maxBytes: 100 };
    expect(await client.exec(missing)).toMatchObject({ exitCode: 127, stderr: "no-such: command not found\n" });
    await expect(client.exec({ ...missing, cwd: "nowhere" })).rejects.toMatchObject({ code: "not-found" });
  });

  it("ends a command that takes too long, with its processes", async () => {
    const token = sleepToken();
    const result = await exec(`setsid sleep ${token} & sleep ${token}`, { timeoutMs: 200 });
    expect(result.timedOut).toBe(true);
    expect(processesSaying(token)).toEqual([]);
  });

  it("packs a folder and unpacks it again", async () => {
    const { client, root } = guest;
    await client.writeFile("from/bin/tool", "#!/bin/sh\n", { mode: 0o755 });
    await client.writeFile("from/large", Buffer.alloc(5_000_000, 7));
    symlinkSync("bin/tool", join(root, "from/link"));
    const tar = await buffer(await client.pack("from"));
    await client.unpack("to/here", Readable.from([tar.subarray(0, 1_000), tar.subarray(1_000)]));
    expect(statSync(join(root, "to/here/bin/tool")).mode & 0o777).toBe(0o755);
    expect(readFileSync(join(root, "to/here/large")).equals(Buffer.alloc(5_000_000, 7))).toBe(true);
    expect(lstatSync(join(root, "to/here/link")).isSymbolicLink()).toBe(true);
    const whole = (await buffer(await client.pack(""))).toString("latin1");
    expect(whole).not.toContain("./.guest/jobs");
    await expect(client.unpack("to", Readable.from([Buffer.from("no tar at all")]))).rejects.toMatchObject({
      code: "environment",
    });
    await expect(client.pack("nowhere")).rejects.toMatchObject({ code: "not-found" });
  });

  it("unpacks nothing outside the folder", async () => {
    const { client, root } = guest;
    mkdirSync(join(guest.folder, "evil"));
    writeFileSync(join(guest.folder, "evil/x"), "evil");
    const made = spawn("tar", ["-cPf", "-", "--transform", "s,^.*$,../../escaped,", "x"], {
      cwd: join(guest.folder, "evil"),
    });
    const tar = await buffer(made.stdout);
    await client.unpack("safe/inner", Readable.from([tar])).catch(() => undefined);
    expect(readdirSync(root)).not.toContain("escaped");
    expect(readdirSync(guest.folder)).not.toContain("escaped");
  });

  it("hands out no port twice", async () => {
    const ports = (await Promise.all([guest.client.allocatePorts(20), guest.client.allocatePorts(20)])).flat();
    expect(new Set(ports).size).toBe(40);
  });

  it("carries bytes to a port inside and back, and says when nothing listens", async () => {
    const [port = 0] = await guest.client.allocatePorts(1);
    await expect(guest.client.tunnel(port)).rejects.toMatchObject({ code: "sandbox-unavailable" });
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.write("welcome ");
      socket.pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    try {
      const tunnel = await guest.client.tunnel(port);
      const sent = Buffer.alloc(2_000_000, "x");
      tunnel.end(sent);
      expect((await buffer(tunnel)).length).toBe("welcome ".length + sent.length);
    } finally {
      server.close();
    }
  });
}
