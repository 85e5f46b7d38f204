import { closeSync, mkdtempSync, openSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isWithin, segmentsOf } from "../../src/guest/files/confined-volume.ts";
import { explainSystemError } from "../../src/guest/isolation/isolation.ts";
import { signalOfExitCode } from "../../src/guest/isolation/processes.ts";
import { createChanges } from "../../src/guest/jobs/changes.ts";
import { createJobInput } from "../../src/guest/jobs/input.ts";
import { firstState, stateAfterGuestDeath } from "../../src/guest/jobs/ledger.ts";
import { createJobOutput } from "../../src/guest/jobs/output.ts";
import { jobId, loadRecords, saveRecord } from "../../src/guest/jobs/record.ts";
import { parseJobSpec } from "../../src/guest/validate.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("a job's output", () => {
  const tailBytes = 64 * 1024;
  /** The part of some chunks that is kept below a limit. */
  const keep = async (chunks: readonly Buffer[], limitBytes: number) => {
    const path = join(folder, `output-${Math.random()}`);
    const output = await createJobOutput(path, { changes: createChanges(), onProblem: () => undefined });
    const stream = new PassThrough();
    const collected = output.collect(stream, limitBytes, Promise.resolve());
    for (const chunk of chunks) if (!stream.write(chunk)) await new Promise((resolve) => stream.once("drain", resolve));
    stream.end();
    const stage = await collected;
    await output.close();
    return { stage, bytes: readFileSync(path) };
  };

  it("is complete if it exceeds its limit by no more than the kept tail", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 40_000 }), { maxLength: 6 }),
        fc.nat(100_000),
        async (parts, limit) => {
          const chunks = parts.map((part) => Buffer.from(part));
          const all = Buffer.concat(chunks);
          fc.pre(all.length <= limit + tailBytes);
          const { stage, bytes } = await keep(chunks, limit);
          expect(bytes.equals(all)).toBe(true);
          expect(stage).toMatchObject({ start: 0, end: all.length, truncated: false });
        },
      ),
      { numRuns: 40 },
    );
  });

  it("says how many bytes are missing if it exceeds that", async () => {
    const chunks = Array.from({ length: 10 }, (_, index) => Buffer.alloc(30_000, String(index)));
    const { stage, bytes } = await keep(chunks, 1_000);
    const notice = Buffer.from(`\n[${300_000 - 1_000 - tailBytes} bytes of output dropped here]\n`);
    const all = Buffer.concat(chunks);
    const expected = Buffer.concat([all.subarray(0, 1_000), notice, all.subarray(all.length - tailBytes)]);
    expect(bytes.equals(expected)).toBe(true);
    expect(stage).toMatchObject({ end: expected.length, truncated: true });
  });

  it("begins its tail with a whole character", async () => {
    const { bytes } = await keep([Buffer.from("é".repeat(100_000)), Buffer.from("!")], 10);
    expect(bytes.toString("utf8")).not.toContain("\ufffd");
  });
});

describe("a job's input", () => {
  it("arrives once and in order, whatever is sent again", async () => {
    const input = createJobInput(join(folder, "stdin.log"));
    await input.accept(0, Buffer.from("a"), false);
    const stream = new PassThrough();
    const fed = input.feed(stream);
    await Promise.all([input.accept(1, Buffer.from("b"), false), input.accept(1, Buffer.from("B"), false)]);
    await input.accept(0, Buffer.from("A"), false);
    await expect(input.accept(3, Buffer.from("d"), false)).rejects.toMatchObject({ code: "stdin-gap" });
    await input.accept(2, Buffer.from("c"), true);
    await expect(input.accept(3, Buffer.from("d"), false)).rejects.toMatchObject({ code: "stdin-ended" });
    await input.accept(2, Buffer.from("c"), true);
    expect((await buffer(stream)).toString()).toBe("abc");
    await fed;
    await input.close();
  });
});

describe("a job's record", () => {
  const first = firstState("a key/é", ["one", "two"], { now: new Date(0), labels: { build: "b" } });

  it("is read as it was written, under a name that any key can have", async () => {
    await saveRecord(join(folder, jobId(first.key)), first, true);
    expect(await loadRecords(folder)).toEqual(new Map([[jobId("a key/é"), first]]));
    expect(jobId("../../etc")).toMatch(/^[0-9a-f]{40}$/);
  });

  it("says what ran and what did not if the job's guest died", () => {
    const [one, two] = first.stages;
    const running = { ...first, stages: [{ ...one!, status: "running" as const }, two!] };
    const lost = stateAfterGuestDeath(running, new Date(5_000), 12);
    expect(lost).toMatchObject({ status: "lost", outputBytes: 12, endedAt: "1970-01-01T00:00:05.000Z" });
    expect(lost.stages.map((stage) => `${stage.status} ${stage.error}`)).toEqual([
      "failed the guest died while it ran",
      "skipped null",
    ]);
  });

  it.skipIf(process.platform !== "linux")("fails when the volume was deleted, without trying for ever", async () => {
    const volume = mkdtempSync(join(folder, "volume-"));
    const held = openSync(volume, "r");
    try {
      rmdirSync(volume);
      const record = saveRecord(`/proc/self/fd/${held}/${jobId(first.key)}`, first, true);
      await expect(record).rejects.toMatchObject({ code: "ENOENT" });
    } finally {
      closeSync(held);
    }
  });
});

describe("a path from a caller", () => {
  it("never has a segment that leads up or into the guest's folder", () => {
    const segment = fc.oneof(fc.constantFrom("..", ".", "", ".guest", "a", "b c"), fc.string({ maxLength: 5 }));
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 6 }), (parts) => {
        let segments: string[] = [];
        try {
          segments = segmentsOf(parts.join("/"));
        } catch {
          return; // Refused, as it should be if it leads out.
        }
        expect(segments).not.toContain("..");
        expect(segments[0]).not.toBe(".guest");
        expect(isWithin("/root", join("/root", ...segments))).toBe(true);
      }),
    );
    expect(() => segmentsOf("a/../b")).toThrow(/leads out/);
    expect(() => segmentsOf("/a")).toThrow(/relative/);
    expect(() => segmentsOf("a\0b")).toThrow(/NUL/);
    expect(isWithin("/a", "/ab")).toBe(false);
  });
});

describe("a caller's request", () => {
  const stage = { name: "s", argv: ["true"], cwd: "", env: {}, stdin: null, timeoutMs: 1, outputLimitBytes: 0 };
  const spec = (change: object) => ({ stages: [{ ...stage, ...change }], writable: [], labels: {} });

  it("is refused with the name of the wrong field", () => {
    const wrong: readonly [object, RegExp][] = [
      [{ argv: [] }, /stages\[0\]\.argv/],
      [{ argv: ["a\0b"] }, /stages\[0\]\.argv\[0\] must not contain NUL/],
      [{ env: { "A=B": "x" } }, /impossible name/],
      [{ timeoutMs: 0 }, /timeoutMs must be above 0/],
      [{ ready: { http: { port: 70_000, path: "/" } } }, /port must be a TCP port/],
      [{ ready: { http: { port: 80, path: "/ HTTP/1.1\r\n" } } }, /must be a URL path/],
      [{ background: "yes" }, /background must be true or false/],
    ];
    for (const [change, message] of wrong) expect(() => parseJobSpec(spec(change))).toThrow(message);
    expect(() => parseJobSpec(null)).toThrow("job must be an object");
  });

  it("has its time limit capped to what a timer can wait", () => {
    expect(parseJobSpec(spec({ timeoutMs: 1e15 })).stages[0]?.timeoutMs).toBe(2 ** 31 - 1);
  });
});

describe("an ending", () => {
  it("has the exit code that shells report", () => {
    expect(explainSystemError(["x"], "spawn x ENOENT")).toEqual({ exitCode: 127, error: "x: command not found" });
    expect(explainSystemError(["x"], "Exec format error").exitCode).toBe(126);
    expect(explainSystemError(["x"], "spawn E2BIG")).toEqual({
      exitCode: null,
      error: "x could not be started: spawn E2BIG",
    });
    expect([0, 128, 137, 143, 250].map(signalOfExitCode)).toEqual([null, null, "SIGKILL", "SIGTERM", null]);
  });
});
