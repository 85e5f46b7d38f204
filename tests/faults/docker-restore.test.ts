import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { createDockerDriver } from "../../src/sandbox/drivers/docker.ts";
import type { SandboxDriver } from "../../src/sandbox/port.ts";
import { shell, specOf } from "../contract/sandbox-driver.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { dockerOptions, leftInDocker } from "../support/docker-harness.ts";
import type { RestoreRequest } from "../support/killed-restore.ts";
import { requires } from "../support/require.ts";

const program = await bundledProgram("killed-restore");
const files = 60;

describe.runIf(requires("docker"))("a restore in Docker whose process is killed", { timeout: 1_200_000 }, () => {
  const projectId = `proj_${randomBytes(8).toString("hex")}` as ProjectId;
  let dataDir = "";
  let driver: SandboxDriver;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-restore-"));
    driver = createDockerDriver(dockerOptions(dataDir));
  });
  afterEach(async () => {
    await driver.remove(projectId, { volume: true });
    expect(await leftInDocker(dockerOptions(dataDir))).toEqual([]);
    rmSync(dataDir, { recursive: true, force: true });
  });

  const archiveOf = (content: string): string => join(dataDir, `${content}.tar.gz`);

  /** Fills the volume with files of the same content, and archives it. */
  async function fill(content: string): Promise<void> {
    const { guest } = await driver.ensure(specOf(projectId));
    const script = `rm -rf ./d*; for n in $(seq ${files}); do mkdir d$n; echo ${content} > d$n/file; done; head -c 300000 /dev/urandom > d1/more`;
    expect(await shell(guest, script)).toMatchObject({ exitCode: 0 });
    await pipeline(await driver.pack(projectId, "tar.gz"), createWriteStream(archiveOf(content)));
  }

  /** The content of the volume: how many files have which text. */
  async function held(): Promise<string> {
    const { guest } = await driver.ensure(specOf(projectId));
    return (await shell(guest, "cat d*/file | sort | uniq -c | xargs")).stdout.trim();
  }

  /** Whether it was killed before it finished. */
  async function restore(content: string, killedAt: RestoreRequest["killedAt"]): Promise<boolean> {
    const request: RestoreRequest = {
      options: dockerOptions(dataDir),
      projectId,
      archive: archiveOf(content),
      killedAt,
    };
    const child = spawn(process.execPath, [program, JSON.stringify(request)], {
      cwd: join(import.meta.dirname, "../.."),
      stdio: ["ignore", "inherit", "inherit"],
    });
    const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
      child.on("close", (...how) => resolve(how)),
    );
    expect([code, signal]).toEqual(code === 0 ? [0, null] : [null, "SIGKILL"]);
    return signal !== null;
  }

  it("leaves the volume unchanged or fully restored, wherever it dies, and can be repeated", async () => {
    await fill("old");
    await fill("new");
    let now = "new";
    const seen = new Set<string>();
    const begin = async (killedAt: RestoreRequest["killedAt"]): Promise<boolean> => {
      const wanted = now === "old" ? "new" : "old";
      const isKilled = await restore(wanted, killedAt);
      const found = await held();
      expect([`${files} old`, `${files} new`], `killed at ${killedAt}`).toContain(found);
      if (!isKilled) expect(found).toBe(`${files} ${wanted}`);
      else seen.add(found === `${files} ${wanted}` ? "done" : "undone");
      now = found.replace(/^\d+ /, "");
      return isKilled;
    };
    expect(await begin("half")).toBe(true);
    let step = 1;
    while (await begin(step)) step += 1;
    expect(step).toBeGreaterThan(10);
    expect([...seen].sort()).toEqual(["done", "undone"]);
    // One volume with its mark, and the container; nothing is left of what the killed processes
    // began.
    expect((await leftInDocker(dockerOptions(dataDir))).length).toBe(3);
  });
});
