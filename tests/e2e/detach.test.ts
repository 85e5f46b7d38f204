import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { requires } from "../support/require.ts";

// Builds in the background, as a user types them.

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const buildIdIn = (text: string): string => /bld_\w+/.exec(text)![0];

describe("a build in the background", { timeout: 120_000 }, () => {
  let place: CommandPlace;
  beforeAll(() => {
    place = createCommandPlace({ WAVESMITH_SANDBOX: "local-unsafe" });
  });
  afterAll(() => place.close());

  /** A plan whose task waits for a file, and a function that lets it end. */
  function waitingPlan(name: string): { file: string; begun: () => boolean; release: () => void } {
    const [begun, go] = [join(place.folder, `${name}-begun`), join(place.folder, `${name}-go`)];
    const run = `touch ${begun}; until test -e ${go}; do sleep 0.1; done; echo a > a`;
    const file = place.plan(name, [{ id: "a", run }]);
    return { file, begun: () => existsSync(begun), release: () => writeFileSync(go, "") };
  }

  it.runIf(requires("terminal"))("survives its terminal, and is watched and left by another command", async () => {
    const plan = waitingPlan("shop");
    const command = `'${process.execPath}' '${program}' --data '${place.data}' --sandbox local-unsafe build '${plan.file}' --detach`;
    const child = spawn("script", ["-qec", command, "/dev/null"], { cwd: place.folder });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    expect(await new Promise<number | null>((resolve) => child.once("close", resolve)), text).toBe(0);
    const id = buildIdIn(text);
    expect(text).toContain(`build ${id} is running in the background`);
    expect(text).toContain(`wavesmith attach ${id}`);
    await expect.poll(plan.begun, { timeout: 60_000 }).toBe(true);
    const left = place.start("attach", id);
    await left.said("wave 1");
    left.child.kill("SIGINT");
    expect([await left.ended, left.text()]).toEqual([5, expect.stringContaining(`build ${id} keeps running`)]);
    const watched = place.start("attach", "--json");
    await watched.said("build.started");
    plan.release();
    expect(await watched.ended).toBe(0);
    const last: unknown = JSON.parse(watched.text().trimEnd().split("\n").at(-1)!);
    expect(last).toMatchObject({ type: "build.finished", buildId: id, status: "completed" });
    const log = join(place.data, "logs", `${id}.log`);
    await expect.poll(() => readFileSync(log, "utf8")).toContain(`build ${id} completed`);
    expect((await place.run("attach", id)).text).toContain(`build ${id} completed`);
  });

  it("is cancelled by its id, and is not watched for ever if it has no process", async () => {
    const cancelled = waitingPlan("cancelled");
    const id = buildIdIn((await place.run("build", cancelled.file, "--detach")).text);
    expect((await place.run("cancel", id)).code).toBe(0);
    expect((await place.run("attach", id)).code).toBe(3);
    const killed = waitingPlan("killed");
    const started = await place.run("build", killed.file, "--detach", "--json");
    const { buildId, pid } = JSON.parse(started.text.trim());
    await expect.poll(killed.begun, { timeout: 60_000 }).toBe(true);
    process.kill(pid, "SIGKILL");
    const alone = await place.run("attach", buildId);
    expect([alone.code, alone.text]).toEqual([1, expect.stringContaining(`wavesmith resume ${buildId}`)]);
    killed.release();
    expect((await place.run("resume", buildId)).code).toBe(0);
  });

  it("says why it cannot start, with its own exit code", async () => {
    const faulty = place.plan("faulty", [{ id: "a", run: "true", dependsOn: ["b"] }]);
    const refused = await place.run("build", faulty, "--detach");
    expect([refused.code, refused.text]).toEqual([2, expect.stringContaining("b")]);
    expect(readdirSync(join(place.data, "logs")).filter((name) => name.startsWith("starting-"))).toEqual([]);
  });
});
