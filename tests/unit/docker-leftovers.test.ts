import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findLeftovers } from "../../src/sandbox/drivers/docker/leftovers.ts";
import { fakeEngine, json } from "../support/fake-docker-engine.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-left-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const of = (dataDir: string) => ({ Labels: { "io.wavesmith.data-dir": dataDir } });

async function leftovers(containers: readonly string[], volumes: readonly string[]) {
  const engine = await fakeEngine(folder, {
    "GET /containers/json": json(containers.map(of)),
    "GET /volumes": json({ Volumes: volumes.length === 0 ? null : volumes.map(of) }),
  });
  try {
    return await findLeftovers(engine.environment);
  } finally {
    await engine.close();
  }
}

describe("Docker resources of a data directory", () => {
  it("are reported once the directory is gone, with the command that removes them", async () => {
    const there = join(folder, "there");
    mkdirSync(there);
    const gone = join(folder, "gone");
    expect(await leftovers([there, gone], [gone, there, gone])).toEqual([
      {
        dataDir: gone,
        containers: 1,
        volumes: 2,
        remedy: `docker rm -f $(docker ps -aq --filter label=io.wavesmith.data-dir=${gone}) && docker volume rm $(docker volume ls -q --filter label=io.wavesmith.data-dir=${gone})`,
      },
    ]);
    expect(await leftovers([there], [])).toEqual([]);
  });

  it("are reported with a command that is safe to type, whatever the directory is called", async () => {
    const [found] = await leftovers([], [join(folder, "it's; gone")]);
    expect(found?.remedy).toBe(
      `docker volume rm $(docker volume ls -q --filter 'label=io.wavesmith.data-dir=${folder}/it'\\''s; gone')`,
    );
  });

  // Root may look everywhere, so it tries as another user.
  it("are not reported for a directory that this user may not look for", async () => {
    const closed = join(folder, "closed");
    mkdirSync(closed);
    chmodSync(closed, 0o700);
    chmodSync(folder, 0o777);
    const root = process.geteuid?.() === 0;
    if (!root) chmodSync(closed, 0o000);
    else process.seteuid?.(65534);
    try {
      expect(await leftovers([], [join(closed, "data")])).toEqual([]);
    } finally {
      if (root) process.seteuid?.(0);
      else chmodSync(closed, 0o700);
    }
  });
});
