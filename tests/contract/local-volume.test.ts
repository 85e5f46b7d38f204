import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { pack as tarPack } from "tar-stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { createLocalDriver, type LocalDriverOptions } from "../../src/sandbox/drivers/local.ts";
import { processStart } from "../../src/sandbox/host/processes.ts";
import type { ArchiveFormat, SandboxChange, SandboxDriver } from "../../src/sandbox/port.ts";
import { requires } from "../support/require.ts";
import { usually } from "../support/usual-limits.ts";
import { processesWith, scriptJob, specOf, until } from "./sandbox-driver.ts";

const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/" };
const projectId = "proj_a" as ProjectId;
const drivers = requires("bubblewrap") ? (["local", "local-unsafe"] as const) : (["local-unsafe"] as const);

/** A tar.gz of these entries; a link's target follows its name. */
async function archiveOf(
  ...entries: [string, "file" | "symlink" | "link" | "character-device", string?][]
): Promise<Buffer> {
  const tar = tarPack();
  for (const [name, type, text = ""] of entries) {
    if (type === "file") tar.entry({ name, type }, text);
    else tar.entry({ name, type, linkname: text });
  }
  tar.finalize();
  return gzipSync(await buffer(tar));
}

/** Our child and grandchild processes that are unpacking an archive. */
function unpacking(): string[] {
  const children = (pid: string) => partsOf(`/proc/${pid}/task/${pid}/children`, " ");
  const ours = children(`${process.pid}`);
  return [...ours, ...ours.flatMap(children)].filter((pid) => partsOf(`/proc/${pid}/cmdline`, "\0").includes("unpack"));
}

/** Nothing for a process that has ended. */
function partsOf(path: string, end: string): string[] {
  try {
    return readFileSync(path, "utf8").split(end).filter(Boolean);
  } catch {
    return [];
  }
}

describe.each(drivers)("the volume of a sandbox (%s)", (name) => {
  let dataDir = "";
  let driver: SandboxDriver;
  let options: LocalDriverOptions;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-volume-"));
    options = { unsafe: name === "local-unsafe", dataDir, installationId: "inst_test", readOnly: [], env };
    driver = createLocalDriver(options);
  });
  afterEach(async () => {
    await driver.remove(projectId, { volume: true });
    expect(readdirSync(join(dataDir, "volumes"))).toEqual([]);
    rmSync(dataDir, { recursive: true, force: true });
    expect(processesWith(dataDir)).toEqual([]);
  });

  const listing =
    "find . -path ./.guest -prune -o -printf '%P %y %m %l\\n' | sort; find . -path ./.guest -prune -o -type f -exec sha256sum {} + | sort";
  /** Runs a script in the volume's own folder, where archives are unpacked. */
  const inSandbox = async (script: string) => {
    const { guest } = await driver.ensure(specOf(projectId));
    const whole = { cwd: ".", writable: ["."], env: {}, timeoutMs: 30_000, maxBytes: 1 << 20 };
    return (await guest.exec({ argv: ["sh", "-c", script], ...whole })).stdout;
  };
  const volumes = () => readdirSync(join(dataDir, "volumes"));

  it("is restored completely from an archive, of a running and of a stopped sandbox, in every format", async () => {
    const made = `mkdir -p a/deep 'with space' && echo one > a/deep/file && printf '\\0\\1' > 'with space/bin' && ln -s deep/file a/link
      chmod 755 a/deep/file; chmod 555 a/deep; : > empty; printf 'ü' > 'ümlaut'`;
    await inSandbox(made);
    const before = await inSandbox(listing);
    const { archives } = await driver.capabilities();
    expect(archives).toContain("tar.gz");
    for (const format of archives) {
      const archive = await buffer(await driver.pack(projectId, format));
      await inSandbox("chmod -R u+w a; rm -r a; echo changed > empty; echo new > new");
      await driver.restore(projectId, Readable.from([archive]), usually(format));
      expect(await driver.find(projectId)).toBeNull();
      expect(await inSandbox(listing)).toBe(before);
      await driver.stop(projectId);
      expect((await buffer(await driver.pack(projectId, format))).length).toBeGreaterThan(100);
    }
    expect(volumes()).toEqual([projectId]);
  });

  it("is created from an archive if there was none", async () => {
    await driver.restore(projectId, Readable.from([await archiveOf(["hello", "file", "world"])]), usually("tar.gz"));
    expect(await inSandbox("cat hello")).toBe("world");
  });

  it("cannot be archived if it does not exist", async () => {
    await expect(driver.pack(projectId, "tar.gz")).rejects.toMatchObject({ code: "not-found" });
  });

  it.each([
    ["a path with ..", [["../escaped", "file", "x"]]],
    ["an absolute path", [["/tmp/escaped", "file", "x"]]],
    [
      "a file through a link that leads out",
      [
        ["out", "symlink", "/tmp"],
        ["out/escaped", "file", "x"],
      ],
    ],
    ["a link that climbs out", [["up", "symlink", "../../escaped"]]],
    ["a hard link that leads out", [["hard", "link", "/etc/hostname"]]],
    ["a device", [["device", "character-device"]]],
  ] as const)("is not changed by an archive with %s", async (_, entries) => {
    await inSandbox("echo kept > kept");
    const archive = await archiveOf(...(entries as unknown as Parameters<typeof archiveOf>));
    await expect(driver.restore(projectId, Readable.from([archive]), usually("tar.gz"))).rejects.toMatchObject({
      code: "archive",
    });
    expect(await inSandbox("cat kept; ls")).toBe("kept\nkept\n");
    expect(volumes()).toEqual([projectId]);
    expect(existsSync("/tmp/escaped")).toBe(false);
  });

  it("is not changed by an archive that is cut, broken, of another format, or whose source fails", async () => {
    await inSandbox("echo kept > kept; head -c 300000 /dev/urandom > large");
    const whole = await buffer(await driver.pack(projectId, "tar.gz"));
    const broken = Buffer.from(whole);
    broken.fill(0, 100_000, 101_000);
    const failing = async function* () {
      yield whole;
      throw new Error("its checksum is not what was kept");
    };
    const sources: [Readable, ArchiveFormat, RegExp][] = [
      [Readable.from([whole.subarray(0, whole.length / 2)]), "tar.gz", /could not be unpacked/],
      [Readable.from([broken]), "tar.gz", /could not be unpacked/],
      [Readable.from([]), "tar.gz", /could not be unpacked/],
      [Readable.from([Buffer.from("no archive at all")]), "tar.gz", /could not be unpacked/],
      [Readable.from(failing()), "tar.gz", /checksum/],
    ];
    for (const [source, format, why] of sources) {
      await expect(driver.restore(projectId, source, usually(format))).rejects.toThrow(why);
      expect(await inSandbox("cat kept; ls")).toBe("kept\nkept\nlarge\n");
    }
    expect(volumes()).toEqual([projectId]);
  });

  it("stops being archived when nobody wants the archive any more", async () => {
    await inSandbox("head -c 30000000 /dev/urandom > large");
    const archive = await driver.pack(projectId, "tar.gz");
    archive.destroy();
    await until("the packing has ended", () => processesWith(join(dataDir, "cache")).length <= 1);
  });

  it("leaves no process of a restore that breaks off while its sandbox is being created", async () => {
    await inSandbox("echo kept > kept");
    const failing = async function* (depth: number) {
      yield Buffer.alloc(0);
      while (unpacking().length < depth) await new Promise((next) => setImmediate(next));
      throw new Error("the store went away");
    };
    for (const depth of [0, 1, ...Array(20).fill(name === "local" ? 2 : 1)]) {
      const source = Readable.from(failing(depth));
      await expect(driver.restore(projectId, source, usually("tar.gz"))).rejects.toThrow("the store went away");
    }
    expect(unpacking()).toEqual([]);
    expect(volumes()).toEqual([projectId]);
  });

  it("is restored completely or not at all when the restoring process dies, at any point", async () => {
    const volume = join(dataDir, "volumes", projectId);
    await inSandbox("echo old > file");
    await driver.stop(projectId);
    const put = (suffix: string, text: string) => {
      mkdirSync(`${volume}.${suffix}`, { recursive: true });
      writeFileSync(join(`${volume}.${suffix}`, "file"), `${text}\n`);
    };
    const dead = spawn("true");
    await new Promise((resolve) => dead.once("exit", resolve));
    put(`unpacking-${dead.pid}-12345-0123abcd`, "half");
    put("restored", "new");
    expect(await inSandbox("cat file")).toBe("old\n");
    expect(volumes()).toEqual([projectId]);
    await driver.stop(projectId);

    put("restored", "new");
    renameSync(volume, `${volume}.replaced`);
    expect(await inSandbox("cat file")).toBe("new\n");
    expect(volumes()).toEqual([projectId]);
    await driver.stop(projectId);

    put("replaced", "older");
    const alive = `unpacking-${process.pid}-${processStart(process.pid)}-0123abcd`;
    put(alive, "somebody is at it");
    expect(await inSandbox("cat file")).toBe("new\n");
    expect(volumes().sort()).toEqual([projectId, `${projectId}.${alive}`]);
    rmSync(`${volume}.${alive}`, { recursive: true });
    expect((await driver.list()).map((info) => info.projectId)).toEqual([projectId]);
  });

  it("is restored by the last of several simultaneous requests", async () => {
    await inSandbox("echo old > file");
    const texts = ["one", "two", "three"];
    const archives = await Promise.all(texts.map((text) => archiveOf(["file", "file", text])));
    await Promise.all(
      archives.map((archive) => driver.restore(projectId, Readable.from([archive]), usually("tar.gz"))),
    );
    expect(texts).toContain(await inSandbox("cat file"));
    expect(volumes()).toEqual([projectId]);
  });
});

describe.each(drivers)("a driver (%s)", (name) => {
  let dataDir = "";
  let driver: SandboxDriver;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-usage-"));
    driver = createLocalDriver({
      unsafe: name === "local-unsafe",
      dataDir,
      installationId: "inst_test",
      readOnly: [],
      env,
    });
  });
  afterEach(async () => {
    await driver.remove(projectId, { volume: true });
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("reports the usage of a sandbox's processes, and nothing when it does not run", async () => {
    expect(await driver.usage(projectId)).toBeNull();
    const { guest } = await driver.ensure(specOf(projectId));
    const idle = await driver.usage(projectId);
    expect(idle!.memoryBytes).toBeGreaterThan(5_000_000);
    const hog = "const held = Buffer.alloc(200_000_000, 1); for (;;) held[0] = Date.now()";
    await guest.startJob("job-1", scriptJob(`setsid node -e '${hog}'`));
    const busy = await until("the job is seen at work", async () => {
      const usage = await driver.usage(projectId);
      return usage !== null && usage.memoryBytes! > idle!.memoryBytes! + 150_000_000 && usage.cpus! > 0.05
        ? usage
        : null;
    });
    expect(busy.processes).toBeGreaterThan(idle!.processes!);
    expect(busy.diskBytes).toBeGreaterThan(0);
    await driver.stop(projectId);
    expect(await driver.usage(projectId)).toBeNull();
  });

  it("reports events of a sandbox until nobody listens", async () => {
    const watching = new AbortController();
    const seen: SandboxChange["change"][] = [];
    const watched = (async () => {
      for await (const { change } of driver.watch(watching.signal)) seen.push(change);
    })();
    await driver.ensure(specOf(projectId));
    await until("it is seen to start", () => seen.includes("started"));
    const { pid } = JSON.parse(readFileSync(join(dataDir, "sandboxes", projectId, "record.json"), "utf8"));
    process.kill(pid, "SIGKILL");
    await until("it is seen to end", () => seen.includes("ended"));
    await driver.remove(projectId, { volume: true });
    await until("it is seen to be gone", () => seen.includes("removed"));
    watching.abort();
    await watched;
    expect(seen).toEqual(["started", "ended", "removed"]);
  });
});
