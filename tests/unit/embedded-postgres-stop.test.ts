import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { stopSql } from "../../src/store/embedded/watchdog.ts";

it("stops the server although its launching shell is still there when the process group is signalled", async () => {
  const socketDir = mkdtempSync(join(tmpdir(), "wavesmith-stop-"));
  // A postmaster that, like the real one, signals the process groups of its sessions when it is
  // asked to stop.
  const server = spawn("sh", [
    "-c",
    'read group; trap "kill -TERM -$group; exit" INT; echo up; while :; do sleep 0.05; done',
  ]);
  const command = /program '(.*)'$/s.exec(stopSql({ pid: server.pid!, socketDir }))![1]!;
  const session = spawn("sh", ["-c", `read go; ${command} n=0; while [ $n -lt 10 ]; do sleep 0.05; n=$((n+1)); done`], {
    detached: true,
  });
  server.stdin.end(`${session.pid}\n`);
  await once(server.stdout, "data");
  session.stdin.end("go\n");
  expect(await once(session, "exit")).toEqual([0, null]);
  await expect.poll(() => existsSync(socketDir)).toBe(false);
});
