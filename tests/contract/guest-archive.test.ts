import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { gunzipSync, gzipSync } from "node:zlib";
import { type Header, pack as tarPack } from "tar-stream";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { guestProgram } from "../../src/sandbox/guest/guest-program.ts";

let program: string;
let cache: string;
let folder: string;
let root: string;
let restored: string;
beforeAll(async () => {
  cache = mkdtempSync(join(tmpdir(), "wavesmith-archive-test-"));
  program = await guestProgram(cache);
  return () => rmSync(cache, { recursive: true, force: true });
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-archive-test-"));
  root = join(folder, "volume");
  restored = join(folder, "restored");
  for (const each of [root, restored]) mkdirSync(each);
});
afterEach(() => {
  execFileSync("chmod", ["-R", "u+rwX", folder]);
  rmSync(folder, { recursive: true, force: true });
});

interface Ran {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs a program of the guest as a user to whom permissions apply. */
async function runGuest(args: readonly string[], input?: Buffer): Promise<Ran> {
  const powerless = process.getuid?.() === 0 ? ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] : [];
  const [command = "", ...rest] = [...powerless, process.execPath, program, ...args];
  const child = spawn(command, rest, { stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.on("error", () => undefined).end(input);
  const code = new Promise<number | null>((resolve) => child.on("close", resolve));
  const [stdout, stderr] = await Promise.all([buffer(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}
const pack = (format = "tar.zst"): Promise<Ran> => runGuest(["pack", "--root", root, "--format", format]);
const unpack = (archive: Buffer, format = "tar.zst", ...more: string[]): Promise<Ran> =>
  runGuest(["unpack", "--root", restored, "--format", format, ...more], archive);

/** Everything that a snapshot keeps of a tree: kinds, modes, times, contents, links. */
function picture(of: string, name = ""): string[] {
  const path = Buffer.from(`${of}/${name}`, "latin1");
  const found = lstatSync(path);
  if (found.isSymbolicLink()) return [`${name} -> ${readlinkSync(path)}`];
  const time = Math.floor(found.mtimeMs / 1000);
  const said = `${name} ${(found.mode & 0o7777).toString(8)}`;
  if (found.isFile()) {
    return [`${said} ${time} ${found.size} ${found.nlink} ${readFileSync(path).toString("base64").slice(0, 200)}`];
  }
  const within = found.isDirectory() ? readdirSync(path, { encoding: "latin1" }).sort() : [];
  return [name === "" ? "" : `${said} ${time}`, ...within.flatMap((each) => picture(of, `${name}/${each}`))];
}

describe("a volume packed and unpacked", () => {
  const fill = (): void => {
    mkdirSync(join(root, "deep/er"), { recursive: true });
    writeFileSync(join(root, "deep/er/file"), "content");
    writeFileSync(join(root, "empty"), "");
    writeFileSync(join(root, `${"long-".repeat(45)}name`), "long");
    mkdirSync(join(root, "a".repeat(120), "b".repeat(120)), { recursive: true });
    writeFileSync(join(root, "a".repeat(120), "b".repeat(120), "c"), "deep");
    symlinkSync("x".repeat(300), join(root, "long-link"));
    writeFileSync(Buffer.concat([Buffer.from(`${root}/not-utf8-`), Buffer.from([0xff, 0xfe])]), "bytes");
    writeFileSync(join(root, "-rf new\nline"), "odd");
    writeFileSync(join(root, "run"), "#!/bin/sh\n", { mode: 0o755 });
    linkSync(join(root, "run"), join(root, "same"));
    symlinkSync("deep/er/file", join(root, "link"));
    symlinkSync("/usr/bin/python3", join(root, "python"));
    mkdirSync(join(root, "closed"));
    writeFileSync(join(root, "closed", "kept"), "kept");
    chmodSync(join(root, "closed"), 0o555);
    writeFileSync(join(root, "holes"), "begin");
    truncateSync(join(root, "holes"), 50_000_000);
    utimesSync(join(root, "deep"), 1_000_000_000, 1_000_000_000);
    utimesSync(join(root, "empty"), 1_100_000_000, 1_100_000_000);
  };

  it.each(["tar.zst", "tar.gz"])("is the same again, as %s", async (format) => {
    fill();
    const packed = await pack(format);
    expect([packed.code, packed.stderr]).toEqual([0, ""]);
    const magic = { "tar.zst": "28b52ffd", "tar.gz": "1f8b08" }[format]!;
    expect(packed.stdout.toString("hex", 0, magic.length / 2)).toBe(magic);
    expect(await unpack(packed.stdout, format)).toMatchObject({ code: 0, stderr: "" });
    expect(picture(restored)).toEqual(picture(root));
    expect(statSync(join(restored, "run")).ino).toBe(statSync(join(restored, "same")).ino);
    // A hole stays a hole.
    expect(statSync(join(restored, "holes")).blocks * 512).toBeLessThan(1_000_000);
  });

  it("is packed without the guest's own, pipes and setuid", async () => {
    mkdirSync(join(root, ".guest/jobs"), { recursive: true });
    mkdirSync(join(root, "sub/.guest"), { recursive: true });
    execFileSync("mkfifo", [join(root, "pipe")]);
    writeFileSync(join(root, "setuid"), "");
    chmodSync(join(root, "setuid"), 0o6755);
    const packed = await pack();
    expect([packed.code, packed.stderr]).toEqual([0, ""]);
    expect(await unpack(packed.stdout)).toMatchObject({ code: 0, stderr: "" });
    expect(readdirSync(restored).sort()).toEqual(["setuid", "sub"]);
    expect(readdirSync(join(restored, "sub"))).toEqual([".guest"]);
    expect(statSync(join(restored, "setuid")).mode & 0o7777).toBe(0o755);
  });

  it("is archived while files are created and removed", async () => {
    for (let index = 0; index < 2_000; index += 1) writeFileSync(join(root, `file-${index}`), "x".repeat(2_000));
    const script =
      "while :; do for i in 1 2 3 4 5 6 7 8 9; do echo more >> file-1$i; mv file-2$i gone-$i; mv gone-$i file-2$i; rm -f file-3$i; done; done";
    const busy = spawn("sh", ["-c", script], { cwd: root, stdio: "ignore" });
    try {
      for (let round = 0; round < 3; round += 1) {
        const packed = await pack();
        expect([packed.code, packed.stderr]).toEqual([0, ""]);
      }
    } finally {
      busy.kill("SIGKILL");
      await new Promise((resolve) => busy.on("close", resolve));
    }
    expect((await unpack((await pack()).stdout)).code).toBe(0);
    expect(readdirSync(restored).length).toBeGreaterThan(1_900);
  });

  it("is archived without files that may not be read, and says so", async () => {
    writeFileSync(join(root, "secret"), "", { mode: 0 });
    mkdirSync(join(root, "closed"), { mode: 0 });
    writeFileSync(join(root, "open"), "");
    const packed = await pack();
    expect(packed.code).toBe(0);
    expect(packed.stderr).toMatch(/left out: .*closed.*Permission denied/);
    expect(packed.stderr).toMatch(/left out: .*secret.*Permission denied/);
    expect((await unpack(packed.stdout)).code).toBe(0);
    expect(readdirSync(restored).sort()).toEqual(["open"]);
  });

  it("says what is wrong with its arguments", async () => {
    expect(await runGuest(["pack", "--format", "tar.gz"])).toMatchObject({
      code: 1,
      stderr: "guest: --root is missing\n",
    });
    expect((await runGuest(["unpack", "--root", root, "--format", "zip"])).stderr).toMatch(/tar.zst, tar.gz/);
    expect(await runGuest(["pack", "--root", join(root, "nowhere"), "--format", "tar.gz"])).toMatchObject({ code: 1 });
  });
});

describe("a hostile archive", () => {
  type Entry = Partial<Header> & { name: string } & { content?: string | Buffer };
  const archive = async (...entries: Entry[]): Promise<Buffer> => {
    const tar = tarPack();
    for (const { content, ...header } of entries) tar.entry(header, content ?? "");
    tar.finalize();
    return buffer(tar);
  };
  const file = (name: string, more: Partial<Entry> = {}): Entry => ({ name, content: "x", ...more });
  const link = (name: string, linkname: string, type: "symlink" | "link" = "symlink"): Entry => ({
    name,
    type,
    linkname,
  });
  const refused = async (tar: Buffer, ...more: string[]): Promise<string> => {
    writeFileSync(join(folder, "outside"), "untouched");
    const before = picture(folder).filter((line) => !line.startsWith("/restored"));
    const ran = await unpack(gzipSync(tar), "tar.gz", ...more);
    expect(ran.code).toBe(1);
    expect(picture(folder).filter((line) => !line.startsWith("/restored"))).toEqual(before);
    return ran.stderr;
  };

  it.each<[string, Entry[], RegExp]>([
    ["a name that climbs out", [file("a/../../outside")], /leads out/],
    ["an absolute name", [file("/tmp/wavesmith-absolute")], /is absolute/],
    ["a file of the guest's own", [file(".guest/jobs/x")], /guest's own folder/],
    ["a file through a link to outside", [link("way", "/tmp"), file("way/wavesmith-through")], /is not a folder/],
    [
      "a file through a link to inside",
      [{ name: "real", type: "directory" }, link("way", "real"), file("way/x")],
      /is not a folder/,
    ],
    ["a file over a link", [link("way", "../../outside"), file("way")], /leads out/],
    ["a file over an absolute link", [link("way", "/tmp/wavesmith-over"), file("way")], /already exists/],
    ["a folder over a link", [link("way", "/tmp"), { name: "way", type: "directory", mode: 0o777 }], /is not a folder/],
    ["a link that climbs out", [link("a", "../outside")], /leads out/],
    ["a link that climbs out on its way", [link("a/b", "../../restored/x")], /leads out/],
    ["a hard link to outside", [link("a", "../outside", "link")], /leads out/],
    ["a hard link to an absolute place", [link("a", "/etc/passwd", "link")], /is absolute/],
    [
      "a hard link to a symlink",
      [link("a", "/etc/passwd"), link("b", "a", "link")],
      /link to something that is not a file/,
    ],
    ["a hard link through a symlink", [link("a", "/etc"), link("b", "a/passwd", "link")], /is not a folder/],
    [
      "a hard link to a folder",
      [{ name: "d", type: "directory" }, link("b", "d", "link")],
      /link to something that is not a file/,
    ],
    ["a hard link to nothing", [link("b", "nothing", "link")], /no such file/],
    ["a character device", [{ name: "null", type: "character-device", devmajor: 1, devminor: 3 }], /is a device/],
    ["a block device", [{ name: "disk", type: "block-device", devmajor: 8, devminor: 0 }], /is a device/],
    ["a named pipe", [{ name: "pipe", type: "fifo" }], /is a named pipe/],
    ["a setuid file", [file("su", { mode: 0o4755 })], /setuid/],
    ["a setgid file", [file("sg", { mode: 0o2755 })], /setgid/],
    ["a file twice", [file("twice"), file("twice")], /already exists/],
    ["the root as a file", [file(".")], /root itself/],
    ["a file below a file", [file("f"), file("f/g")], /is not a folder/],
    [
      "a name that is too long",
      [file("n".repeat(90)), file(`${"d/".repeat(20)}${"n".repeat(60)}`), file(`x${"/..".repeat(30)}`)],
      /leads out/,
    ],
  ])("with %s is refused", async (_what, entries, problem) => {
    const before = ["/tmp/wavesmith-absolute", "/tmp/wavesmith-through", "/tmp/wavesmith-over"].filter(existsSync);
    expect(await refused(await archive(...entries))).toMatch(problem);
    expect(["/tmp/wavesmith-absolute", "/tmp/wavesmith-through", "/tmp/wavesmith-over"].filter(existsSync)).toEqual(
      before,
    );
  });

  it("is refused before it is written if it holds more than is allowed", async () => {
    const tar = await archive(file("large", { content: Buffer.alloc(2_000_000) }));
    expect(await refused(tar, "--max-bytes", "1999999")).toMatch(/more than the 1999999 bytes/);
    expect(readdirSync(restored)).toEqual([]);
    expect((await unpack(gzipSync(tar), "tar.gz", "--max-bytes", "2000000")).code).toBe(0);
  });

  it("counts the holes of its files as part of its size", async () => {
    writeFileSync(join(root, "holes"), "begin");
    truncateSync(join(root, "holes"), 3_000_000);
    const { stdout } = await pack("tar.gz");
    expect(stdout.length).toBeLessThan(100_000);
    expect(await refused(gunzipSync(stdout), "--max-bytes", "2999999")).toMatch(/more than the 2999999 bytes/);
    expect((await unpack(stdout, "tar.gz", "--max-bytes", "3000000")).code).toBe(0);
  });

  it("is refused if it claims a wrong size", async () => {
    const tar = await archive(file("claimed"));
    const claim = (field: Buffer): Buffer => {
      const changed = Buffer.from(tar);
      field.copy(changed, 124);
      return checksummed(changed);
    };
    const binary = Buffer.from("800000000000000000ffffff", "hex");
    expect(await refused(claim(Buffer.from("77777777777\0")))).toMatch(/truncated/);
    rmSync(join(restored, "claimed"), { force: true });
    expect(await refused(claim(binary), "--max-bytes", "10000000")).toMatch(/more than the/);
    expect(await refused(claim(Buffer.from("80ffffffffffffffffffffff", "hex")))).toMatch(
      /number in the archive is too large/,
    );
    expect(await refused(claim(Buffer.from("not a number")))).toMatch(/damaged/);
  });

  it("is refused if it is cut off anywhere", async () => {
    writeFileSync(join(root, "file"), Buffer.alloc(100_000, "abc"));
    const whole = (await pack()).stdout;
    for (const part of [0, 3, 20, Math.floor(whole.length / 2), whole.length - 1]) {
      rmSync(restored, { recursive: true });
      mkdirSync(restored);
      const ran = await unpack(whole.subarray(0, part));
      expect([ran.code, ran.stderr]).toEqual([1, expect.stringMatching(/incomplete|truncated|not a tar archive/)]);
    }
    const tar = await archive(file("a"), file("b"));
    expect(await refused(tar.subarray(0, 1_024))).toMatch(/truncated/);
  });

  it("that is none at all is refused", async () => {
    for (const bytes of [Buffer.from("no archive"), Buffer.alloc(5_000, "x")]) {
      expect((await unpack(bytes)).stderr).toMatch(/incomplete or not tar.zst/);
      expect(await refused(bytes)).toMatch(/truncated|not a tar archive/);
    }
  });

  it("with bits that fell over is refused", async () => {
    writeFileSync(join(root, "file"), Buffer.alloc(100_000, "abc"));
    const whole = (await pack()).stdout;
    whole[whole.length - 20] = whole[whole.length - 20]! ^ 0xff;
    expect((await unpack(whole)).code).toBe(1);
  });

  it("with data after its end is refused", async () => {
    const tar = await archive(file("a"));
    expect(await refused(Buffer.concat([tar, Buffer.alloc(3_000_000)]))).toMatch(/after the end/);
  });

  it("with holes that overlap is refused", async () => {
    writeFileSync(join(root, "holes"), "begin");
    truncateSync(join(root, "holes"), 3_000_000);
    const tar = execFileSync("tar", ["-C", root, "--sparse", "--format=gnu", "-cf", "-", "holes"]);
    expect(String.fromCharCode(tar[156]!)).toBe("S");
    Buffer.from("17777777777\0").copy(tar, 398);
    expect(await refused(checksummed(tar))).toMatch(/holes/);
  });
});

/** Returns the tar with the right checksum in its first header. */
function checksummed(tar: Buffer): Buffer {
  tar.fill(" ", 148, 156);
  const sum = tar.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  tar.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return tar;
}
