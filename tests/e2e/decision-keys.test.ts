import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { requires } from "../support/require.ts";

// Approves, rejects and retries by key, on its own terminal.

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));

let place: CommandPlace;
beforeAll(() => {
  place = createCommandPlace({ WAVESMITH_SANDBOX: "local-unsafe" });
});
afterAll(() => place.close());

it.runIf(requires("terminal"))(
  "a build is rejected, retried and approved by keys after each question",
  {
    timeout: 120_000,
  },
  async () => {
    const go = join(place.folder, "go");
    const begun = join(place.folder, "begun");
    const plan = place.plan(
      "keys",
      [{ id: "a", run: `touch ${begun}; until test -e ${go}; do sleep 0.1; done; echo a > a` }],
      {
        approval: "wave",
        agents: { fixer: { runtime: "command", command: 'grep -q "call it b" && git mv -f a b' } },
      },
    );
    const command = `'${process.execPath}' '${program}' --data '${place.data}' --sandbox local-unsafe build '${plan}'`;
    const child = spawn("script", ["-qec", command, "/dev/null"], { cwd: place.folder });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const times = (what: string) => text.split(what).length - 1;
    const until = (what: string, count = 1) =>
      expect.poll(() => times(what), { timeout: 60_000 }).toBeGreaterThanOrEqual(count);
    /**
     * Types a line again until it is read, because anything typed before the question is dropped.
     */
    const enter = async (line: string, next: string, count = 1) => {
      for (let left = 40; times(next) < count && left > 0; left -= 1) {
        child.stdin.write(`${line}\r`);
        await expect
          .poll(() => times(next), { timeout: 1_000 })
          .toBeGreaterThanOrEqual(count)
          .catch(() => undefined);
      }
      expect(times(next)).toBeGreaterThanOrEqual(count);
    };
    await expect.poll(() => existsSync(begun), { timeout: 60_000 }).toBe(true);
    child.stdin.write("a\r"); // Typed before there was a question.
    writeFileSync(go, "");
    const question = "a and Enter: approve";
    await until(question);
    await enter("r", "what has to be different?");
    await enter("call it b", "t and Enter: retry");
    await enter("t", question, 2);
    await enter("a", "completed: 1 wave passed");
    expect(await ended).toBe(0);
  },
);
