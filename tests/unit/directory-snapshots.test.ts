import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SnapshotStore } from "../../src/sandbox/port.ts";
import { createDirectorySnapshots } from "../../src/sandbox/snapshots/directory.ts";

describe("snapshots in a directory", () => {
  let folder: string;
  let snapshots: SnapshotStore;
  beforeEach(() => {
    folder = join(mkdtempSync(join(tmpdir(), "wavesmith-snapshots-")), "snapshots");
    snapshots = createDirectorySnapshots(folder);
  });
  afterEach(() => rmSync(join(folder, ".."), { recursive: true, force: true }));

  const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
  const read = async (stream: Readable): Promise<Buffer> => {
    const parts: Buffer[] = [];
    for await (const part of stream) parts.push(part as Buffer);
    return Buffer.concat(parts);
  };

  it("are kept byte for byte, with their size and checksum, readable only by their owner", async () => {
    const bytes = randomBytes(3 * 1024 * 1024 + 7);
    const chunks = [bytes.subarray(0, 100_000), bytes.subarray(100_000)];
    const kept = await snapshots.put("snap_a", "tar.zst", Readable.from(chunks));
    expect(kept).toEqual({ sizeBytes: bytes.length, sha256: sha256(bytes) });
    expect((await read(await snapshots.get("snap_a", "tar.zst", kept.sha256))).equals(bytes)).toBe(true);
    expect(await snapshots.list()).toEqual([{ snapshotId: "snap_a", sizeBytes: bytes.length, isWhole: true }]);
    expect(readdirSync(folder)).toEqual(["snap_a.tar.zst"]);
    expect([statSync(folder).mode & 0o777, statSync(join(folder, "snap_a.tar.zst")).mode & 0o777]).toEqual([
      0o700, 0o600,
    ]);
  });

  it("leave nothing when their source breaks off", async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.alloc(100_000);
        throw new Error("the sandbox has gone");
      })(),
    );
    await expect(snapshots.put("snap_a", "tar.gz", broken)).rejects.toThrow("the sandbox has gone");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("fail at their end if a bit has changed", async () => {
    const { sha256: right } = await snapshots.put("snap_a", "tar.gz", Readable.from([Buffer.from("whole")]));
    writeFileSync(join(folder, "snap_a.tar.gz"), "whOle");
    const reading = read(await snapshots.get("snap_a", "tar.gz", right));
    await expect(reading).rejects.toMatchObject({ code: "archive", message: expect.stringMatching(/checksum/) });
  });

  it("are missing if their bytes are, and can be removed repeatedly", async () => {
    await expect(snapshots.get("snap_a", "tar.zst", "")).rejects.toMatchObject({ code: "not-found" });
    await snapshots.remove("snap_a");
    await snapshots.put("snap_a", "tar.zst", Readable.from([Buffer.from("1")]));
    await snapshots.put("snap_b", "tar.zst", Readable.from([Buffer.from("2")]));
    await snapshots.remove("snap_a");
    await snapshots.remove("snap_a");
    expect((await snapshots.list()).map(({ snapshotId }) => snapshotId)).toEqual(["snap_b"]);
  });

  it("never lead out of their folder", async () => {
    const put = snapshots.put("../snap_a", "tar.zst", Readable.from([Buffer.from("1")]));
    await expect(put).rejects.toThrow(/not a valid snapshot name/);
    expect(existsSync(join(folder, "..", "snap_a.tar.zst"))).toBe(false);
  });

  it("do not count when their writer was killed, and can be written again", async () => {
    const module = fileURLToPath(new URL("../../src/sandbox/snapshots/directory.ts", import.meta.url));
    const script = `
      import { Readable } from "node:stream";
      import { createDirectorySnapshots } from ${JSON.stringify(module)};
      const endless = async function* () { for (;;) { yield Buffer.alloc(65536); await new Promise((r) => setTimeout(r, 5)); } };
      createDirectorySnapshots(${JSON.stringify(folder)}).put("snap_a", "tar.zst", Readable.from(endless()));
    `;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", script], {
      stdio: "ignore",
    });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    await expect.poll(async () => (await snapshots.list())[0]?.sizeBytes ?? 0, { timeout: 40_000 }).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await ended;
    expect(await snapshots.list()).toMatchObject([{ snapshotId: "snap_a", isWhole: false }]);
    await expect(snapshots.get("snap_a", "tar.zst", "")).rejects.toMatchObject({ code: "not-found" });
    await snapshots.put("snap_a", "tar.zst", Readable.from([Buffer.from("whole")]));
    expect(readdirSync(folder)).toEqual(["snap_a.tar.zst"]);
    expect(readFileSync(join(folder, "snap_a.tar.zst"), "utf8")).toBe("whole");
  });
});
