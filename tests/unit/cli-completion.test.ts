import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { completionScript } from "../../src/cli/completion.ts";
import { createProgram } from "../../src/cli/program.ts";
import { requires } from "../support/require.ts";

const out = { raw: () => undefined, rawError: () => undefined } as never;
const program = createProgram({ out, environment: {}, version: "1", done: () => undefined });

/** Returns bash's completions after these words; the last one is being typed. */
function completed(...words: string[]): string[] {
  const script = `${completionScript("bash", program)}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _wavesmith; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const done = spawnSync("bash", ["-c", script, "bash", "wavesmith", ...words], { encoding: "utf8" });
  expect(done.stderr).toBe("");
  return done.stdout.trim().split("\n");
}

describe("the completion of bash", () => {
  it("knows commands, their subcommands, and their own and the global options", () => {
    expect(completed("re")).toEqual(["resume", "retry", "reject", "restore"]);
    expect(completed("sandbox", "s")).toEqual(["start", "stop", "snapshot"]);
    expect(completed("sandbox", "image", "")).toContain("build");
    expect(completed("build", "--br")).toEqual(["--brief"]);
    expect(completed("status", "--j")).toEqual(["--json"]);
    expect(completed("--data", "somewhere", "diff", "--w")).toEqual(["--wave"]);
  });

  it("does not mistake an option's value for a command, and completes files there and for plans", () => {
    expect(completed("--project", "build", "doc")).toEqual(["doctor"]);
    expect(completed("build", "--planner-prompt", "package.j")).toEqual(["package.json"]);
    expect(completed("build", "package.j")).toEqual(["package.json"]);
  });
});

it.runIf(requires("zsh"))("completes in zsh with what each word is for", () => {
  // The functions of zsh's own completion, which print what they are given.
  const own = `compdef() { : }; _files() { print files }; _describe() { print -rl -- "\${(@P)@[-1]}" }`;
  const ask = (...words: string[]): string[] => {
    const script = `${own}\n${completionScript("zsh", program)}\nwords=("$@") CURRENT=$#; _wavesmith`;
    const done = spawnSync("zsh", ["-f", "-c", script, "zsh", "wavesmith", ...words], { encoding: "utf8" });
    expect(done.stderr).toBe("");
    return done.stdout.trim().split("\n");
  };
  expect(ask("sandbox", "image", "")).toContain("build:build the image that --sandbox docker starts");
  expect(ask("--data", "x", "")).toContain("rollback:move main back to the end of a wave");
  expect(ask("rollback", "")).toContain("--wave:wave number; 0 is where the build began");
  expect(ask("build", "--planner-prompt", "")).toEqual(["files"]);
});

it.runIf(requires("fish"))("completes in fish with what each word is for", () => {
  const ask = (line: string): string[] => {
    const script = `${completionScript("fish", program)}\ncomplete -C '${line}'`;
    return spawnSync("fish", ["--no-config", "-c", script], { encoding: "utf8" }).stdout.trim().split("\n");
  };
  expect(ask("wavesmith sandbox image ")).toContain("build\tbuild the image that --sandbox docker starts");
  expect(ask("wavesmith --data x roll")).toEqual(["rollback\tmove main back to the end of a wave"]);
  expect(ask("wavesmith rollback --w")).toEqual(["--wave\twave number; 0 is where the build began"]);
});
