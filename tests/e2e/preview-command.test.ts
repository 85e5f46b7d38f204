import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { requires } from "../support/require.ts";

// `preview` as a user types it, after the build's own command has ended.

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const serve = `node -e "require('http').createServer((q,s)=>s.end(require('fs').readFileSync('a'))).listen(process.env.PORT,'127.0.0.1')"`;
const lastObject = (text: string): Record<string, unknown> =>
  JSON.parse(
    text
      .trimEnd()
      .split("\n")
      .findLast((line) => line.startsWith("{"))!,
  );

describe("preview", { timeout: 120_000 }, () => {
  let place: CommandPlace;
  beforeAll(() => {
    place = createCommandPlace();
  });
  afterAll(() => place.close());

  it("shows the wave that waits for approval, and the completed build again later", async () => {
    const plan = place.plan("shop", [{ id: "a", run: "echo one > a" }], {
      approval: "wave",
      preview: { command: serve },
    });
    expect((await place.run("build", plan)).code).toBe(5);
    const waiting = await place.run("preview", "--json");
    expect([waiting.code, lastObject(waiting.text)]).toEqual([
      0,
      expect.objectContaining({ project: "shop", wave: 1, answered: 200, url: expect.stringContaining("http://") }),
    ]);
    expect((await place.run("approve", "--resume")).code).toBe(0);
    const done = await place.run("preview", "--no-wait");
    expect([done.code, done.text]).toEqual([
      0,
      expect.stringMatching(/wave 1 at [0-9a-f]{12}\nPreview answered 200 at http:\/\/127\.0\.0\.1:\d+\//),
    ]);
  });

  it("says why there is nothing to show", async () => {
    const bare = place.plan("bare", [{ id: "a", run: "echo a > a" }]);
    expect((await place.run("build", bare)).code).toBe(0);
    const none = await place.run("preview");
    expect([none.code, none.text]).toEqual([1, expect.stringContaining("has no preview")]);
    const failing = place.plan("failing", [{ id: "a", run: "exit 1" }], { preview: { command: serve } });
    expect((await place.run("build", failing)).code).toBe(1);
    const failed = await place.run("preview");
    expect([failed.code, failed.text]).toEqual([1, expect.stringContaining("there is nothing to show")]);
  });

  it.runIf(requires("terminal"))("stays on a terminal until Ctrl-C, and answers there", async () => {
    const plan = place.plan("stays", [{ id: "a", run: "echo two > a" }], { preview: { command: serve } });
    expect((await place.run("build", plan)).code).toBe(0);
    // `exec`, because a shell that stays around answers Ctrl-C with its own exit code.
    const command = `exec '${process.execPath}' '${program}' --data '${place.data}' preview`;
    const child = spawn("script", ["-qec", command, "/dev/null"], { cwd: place.folder });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    await expect.poll(() => text, { timeout: 60_000 }).toContain("It stays until Ctrl-C.");
    const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(text)![0];
    expect(await (await fetch(url)).text()).toBe("two\n");
    child.stdin.write("\x03");
    expect(await ended).toBe(0);
    expect(text).toContain("stopping the preview");
  });
});
