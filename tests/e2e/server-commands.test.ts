import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const noGates = { gates: { testing: false, critic: false, integration: false } };

let place: CommandPlace;
afterEach(() => place.close());

/** Starts a server on the data directory; returns a command line that works on it alone. */
async function startServer() {
  const serve = place.start("serve", "--port", "0", "--json");
  await serve.said("serve.started");
  const { url, keyFile } = serve
    .text()
    .split("\n")
    .filter((line) => line.includes('"serve.started"'))
    .map((line) => JSON.parse(line) as { url: string; keyFile: string })[0]!;
  const env = {
    ...{ PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR },
    WAVESMITH_SERVER: url,
    WAVESMITH_KEY: readFileSync(keyFile, "utf8").trim(),
    // Whatever it did to a data directory of its own would show.
    WAVESMITH_DATA: join(place.folder, "untouched"),
  };
  const stop = async () => {
    serve.child.kill("SIGTERM");
    expect(await serve.ended).toBe(0);
  };
  const onServer = (...words: string[]) =>
    new Promise<{ code: number | null; text: string }>((resolve) => {
      const child = spawn(process.execPath, [program, ...words], { cwd: place.folder, env });
      let text = "";
      child.stdout.on("data", (data: Buffer) => {
        text += data.toString();
      });
      child.stderr.on("data", (data: Buffer) => {
        text += data.toString();
      });
      child.on("close", (code) => resolve({ code, text }));
    });
  return { onServer, stop };
}

/** Times, ages and the names of the two places differ from one moment to the next. */
const timeless = (text: string): string =>
  text
    .replace(/(?:\b\d+(?:\.\d+)?(?:ms|s|m|h)\b ?)+/g, "TIME ")
    .replace(/"durationMs":\d+/g, '"durationMs":0')
    .replace(/ --data [^\s,]+/g, "");

it("works on a server with the output of a data directory", { timeout: 300_000 }, async () => {
  place = createCommandPlace();
  const { onServer, stop } = await startServer();
  const here = (...words: string[]) => place.run(...words);
  mkdirSync(join(place.folder, "seed"));
  writeFileSync(join(place.folder, "seed", "seed.txt"), "from the folder of the plan\n");
  const plan = place.plan(
    "shop",
    [
      { id: "one", run: "cat seed.txt; echo one > one.txt" },
      { id: "two", run: "echo two > two.txt", dependsOn: ["one"] },
    ],
    { source: { path: "./seed" }, approval: "final", ...noGates },
  );
  const built = await onServer("build", plan, "--json");
  expect(built.code, built.text).toBe(5);
  const lines = built.text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
  expect(lines[0].type).toBe("build.started");
  expect(lines.map(({ type }) => type)).toContain("project/approval.requested");
  expect(lines.at(-1)).toMatchObject({ type: "build.finished", status: "waiting" });
  const id = lines[0].buildId as string;

  for (const words of [
    ["status", id],
    ["status", "--json"],
    ["builds"],
    ["builds", "--json"],
    ["logs", id],
    ["logs", id, "--task", "one", "--json"],
    ["diff", id, "--wave", "1"],
    ["diff", "--stat", "--task", "two"],
    ["diff", "--json"],
    ["diff", "--task", "nobody"],
    ["attach", id, "--json"],
  ]) {
    const [there, local] = [await onServer(...words), await here(...words)];
    expect(timeless(there.text), words.join(" ")).toBe(timeless(local.text));
    expect(there.code, words.join(" ")).toBe(local.code);
  }
  expect((await onServer("logs", id)).text).toContain("from the folder of the plan");

  expect(await onServer("reject", id, "--reason", "more of it")).toMatchObject({ code: 0 });
  const retried = await onServer("retry", id, "--unchanged");
  expect(retried.code, retried.text).toBe(5);
  const approved = await onServer("approve", id, "--resume");
  expect(approved.code, approved.text).toBe(0);
  expect(approved.text).toContain(`build ${id} completed: 2 waves passed`);
  const back = await onServer("rollback", id, "--wave", "1");
  expect(back.text).toContain(`build ${id} is back at wave 1`);
  expect((await onServer("rollback", id, "--undo")).text).toContain(`build ${id} is completed again`);

  const slow = place.plan("slow", [{ id: "sleep", run: "echo begun; sleep 600" }], noGates);
  const running = onServer("build", slow);
  const begun = async () => (await onServer("logs", "--project", "slow")).text.includes("begun");
  await expect.poll(begun, { timeout: 60_000 }).toBe(true);
  const cancelled = await onServer("cancel", "--project", "slow", "--json");
  expect(JSON.parse(cancelled.text)).toMatchObject({ status: "cancelled" });
  expect((await running).code).toBe(3);

  const local = await onServer("shell", id);
  expect(local.code).toBe(2);
  expect(local.text).toContain("works on a data directory, not on the server");
  await stop();
});
