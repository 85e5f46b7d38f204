import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";

// Keeping the files of one job takes seconds. Meanwhile the orchestrator handles its signals.

let place: CommandPlace;
afterEach(() => place.close());

it("SIGTERM while 60,000 files are kept cancels the build and keeps them all", { timeout: 240_000 }, async () => {
  place = createCommandPlace();
  const many = { id: "many", run: "mkdir f && seq 60000 | split -a 4 -l 1 - f/", retries: 0 };
  const build = place.start("build", place.plan("many", [many]), "--json", "--no-wait");
  await build.said("agent/attempt.finished");
  build.child.kill("SIGTERM");
  await build.said("project/build.cancel");
  expect(await build.ended).toBe(3);
  const [repository] = readdirSync(join(place.data, "repositories")).filter((name) => name.endsWith(".git"));
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", join(place.data, "repositories", repository!), ...args], { encoding: "utf8" });
  const [branch] = git("for-each-ref", "--format=%(refname)", "refs/heads/wavesmith").match(/\S+\/task\/many\/1/)!;
  expect(git("ls-tree", "-r", "--name-only", branch).trim().split("\n")).toHaveLength(60_000);
});
