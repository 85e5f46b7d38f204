import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const script = fileURLToPath(new URL("../../scripts/dev.mjs", import.meta.url));

describe("npm run dev", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "wavesmith-dev-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** With only node on PATH, unless `env` changes it. */
  function dev(env: Record<string, string>): Promise<{ code: number; said: string; tookMs: number }> {
    const began = performance.now();
    return new Promise((resolve) => {
      const options = { env: { PATH: dirname(process.execPath), ...env }, timeout: 30_000 };
      const child = execFile(process.execPath, [script], options, (_, stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, said: stdout + stderr, tookMs: performance.now() - began }),
      );
    });
  }

  async function program(name: string, text: string): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, `#!/bin/sh\n${text}\n`);
    await chmod(path, 0o755);
    return path;
  }

  it("says within seconds that there is no dev server and no program to start, and how to get one", async () => {
    const { code, said, tookMs } = await dev({ PATH: folder });
    expect([code, said]).toEqual([4, expect.stringMatching(/no `inngest` is on PATH.*INNGEST_BIN=.*serve/s)]);
    expect(tookMs).toBeLessThan(20_000);
  });

  it("says so when INNGEST_BIN is not a program, or when INNGEST_DEV does not answer", async () => {
    expect((await dev({ INNGEST_BIN: folder })).said).toMatch(/INNGEST_BIN is .*, which is not an executable file/);
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const { code, said } = await dev({ INNGEST_DEV: `http://127.0.0.1:${port}` });
    expect([code, said]).toEqual([4, expect.stringContaining("nothing answers at INNGEST_DEV")]);
  });

  it.each(["INNGEST_BIN", "PATH"])("starts the program of %s, and reports how it ended", async (setting) => {
    const path = await program("inngest", 'echo "started with: $*"; exit 3');
    const { code, said } = await dev(setting === "PATH" ? { PATH: folder } : { INNGEST_BIN: path, PATH: "/nowhere" });
    expect([code, said]).toEqual([4, expect.stringContaining("started with: dev --no-discovery --host 127.0.0.1")]);
    expect(said).toContain(`${path} could not be started`);
  });
});
