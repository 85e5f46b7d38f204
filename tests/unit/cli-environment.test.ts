import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { driverCheck } from "../../src/cli/commands/doctor.ts";
import { createOutput } from "../../src/cli/output/output.ts";
import { lackingDriver } from "../../src/cli/parts.ts";
import { createProgram } from "../../src/cli/program.ts";
import { withCommandApart } from "../../src/cli/sandbox-commands.ts";
import { checkGit } from "../../src/workspace/authority/git.ts";
import { runHere } from "../support/command-line.ts";

// Machines that lack something: what commands print there, and that they leave nothing behind.

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-environment-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A stream whose errors the test triggers. */
function breaking() {
  const listeners: ((error: Error) => void)[] = [];
  const written: string[] = [];
  return {
    written,
    stream: {
      write: (text: string | Uint8Array, done?: () => void) => {
        written.push(String(text));
        done?.();
        return true;
      },
      on: (event: string, listener: (error: Error) => void) => {
        if (event === "error") listeners.push(listener);
      },
    },
    fail: (code: string) => {
      for (const listener of listeners) listener(Object.assign(new Error(code), { code }));
    },
  };
}

const run = (environment: Record<string, string>, ...words: string[]) => runHere(words, environment);

/** Creates a folder for PATH with a git that reports this version. */
function gitOf(version: string): string {
  writeFileSync(join(folder, "git"), `#!/bin/sh\necho "git version ${version}"\n`);
  chmodSync(join(folder, "git"), 0o755);
  return folder;
}

describe("git", () => {
  it("says whether it is too old or missing, and how to install it", async () => {
    expect(await checkGit({ PATH: gitOf("2.38.1") })).toEqual([]);
    expect(await checkGit({ PATH: gitOf("2.30.2") })).toEqual([
      {
        what: "git 2.30.2 is too old, 2.38 or newer is needed",
        remedy: expect.stringContaining("apt-get install git"),
      },
    ]);
    expect(await checkGit({ PATH: join(folder, "nothing") })).toMatchObject([
      { what: "git is not installed, or not on PATH" },
    ]);
  });

  it.each([
    ["build", "examples/diamond/plan.yaml"],
    ["resume", "bld_1"],
    ["retry", "bld_1"],
  ])("ends %s with exit 4 before anything is made when it is lacking", async (command, argument) => {
    const data = join(folder, "data");
    const ended = await run({ PATH: join(folder, "nothing") }, command, argument, "--data", data);
    expect(ended).toMatchObject({ code: 4, stdout: "" });
    expect(ended.stderr).toMatch(/git is not installed, or not on PATH\n {2}remedy: install git 2\.38/);
    expect(ended.stderr).not.toContain("local-unsafe");
    expect(() => mkdirSync(data)).not.toThrow();
  });

  it("does not make a sandbox driver look usable, or look at fault itself", () => {
    expect(driverCheck("local", [], { gitLacks: true, dockerRuntime: null })).toMatchObject({
      ok: false,
      detail: expect.stringContaining("git"),
    });
    expect(driverCheck("local", [], { gitLacks: false, dockerRuntime: null })).toMatchObject({
      ok: true,
      remedy: null,
    });
    expect(
      driverCheck("local", [{ what: "no bwrap", remedy: "get it" }], { gitLacks: true, dockerRuntime: null }),
    ).toMatchObject({ detail: "no bwrap" });
  });
});

describe("a driver that does not work", () => {
  const naming = (text: string): number => text.split("--sandbox local-unsafe").length - 1;

  it("names the driver without isolation once", () => {
    const of = (remedy: string) => lackingDriver("local", [{ what: "x", remedy }]);
    const text = (error: ReturnType<typeof of>) => `${error.message}\n${error.remedy}`;
    expect(naming(text(of("sysctl -w a=1")))).toBe(1);
    expect(naming(text(of("run without isolation: --sandbox local-unsafe")))).toBe(1);
  });

  it("is not the reason given for a full disk", () => {
    const error = lackingDriver("local", [{ what: "no room on the disk of /d", remedy: "make room", lacks: "disk" }]);
    expect(error).toMatchObject({ code: "environment", message: "no room on the disk of /d", remedy: "make room" });
  });
});

describe("a data directory that cannot be used", () => {
  it.each([["builds"], ["status"], ["sandbox", "ls"]])("ends %s with exit 4", async (...words) => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    const ended = await run({}, ...words, "--data", file);
    expect(ended).toMatchObject({ code: 4, stdout: "" });
    expect(ended.stderr).toContain(`the data directory ${file} cannot be used: it is not a folder`);
    expect((await run({}, ...words, "--data", join(file, "below"))).code).toBe(4);
  });

  it.skipIf(process.geteuid?.() === 0)("ends builds with exit 4 when it may not be read", async () => {
    chmodSync(folder, 0o300);
    expect(await run({}, "builds", "--data", folder)).toMatchObject({ code: 4 });
    chmodSync(folder, 0o700);
  });
});

describe("a failure under --json", () => {
  it("is a line of JSON on standard output, in addition to the text", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    const ended = await run({}, "builds", "--json", "--data", file);
    expect(JSON.parse(ended.stdout)).toEqual({
      type: "error",
      code: "environment",
      message: expect.stringContaining("cannot be used"),
      remedy: expect.stringContaining("--data DIR"),
    });
    expect(ended.stderr).toContain("cannot be used");
  });

  it("is also one if the command line is wrong", async () => {
    const ended = await run({}, "builds", "--jso", "--json");
    expect(JSON.parse(ended.stdout)).toMatchObject({ type: "error", code: "usage" });
    expect((await run({}, "builds", "--help", "--json")).stdout).not.toContain('"type"');
  });
});

describe("the name of a project", () => {
  it.each(["", "  ", "a\nb", "x".repeat(81)])("is refused when it is %j", async (name) => {
    const data = join(folder, "data");
    for (const words of [["builds"], ["build", "examples/diamond/plan.yaml"]]) {
      expect(await run({}, ...words, "--project", name, "--data", data)).toMatchObject({ code: 2, stdout: "" });
    }
  });

  it("is refused with a slash where it is given to a new project", async () => {
    const words = ["build", "examples/diamond/plan.yaml", "--project", "a/b", "--data", join(folder, "data")];
    expect(await run({ PATH: process.env.PATH! }, ...words)).toMatchObject({ code: 2, stdout: "" });
  });
});

describe("a command in a sandbox", () => {
  const { stream } = breaking();
  const out = createOutput({ stdout: stream, stderr: stream, environment: {} });
  const program = createProgram({ out, environment: {}, version: "0", done: () => undefined });
  const apart = (text: string): string => withCommandApart(program, text.split(" ")).join(" ");

  it("has its own options, after ours", () => {
    expect(apart("sandbox exec shop ls -la --data x")).toBe("sandbox exec shop -- ls -la --data x");
    expect(apart("--data d sandbox --json exec shop --data=e node --version")).toBe(
      "--data d sandbox --json exec shop --data=e -- node --version",
    );
    for (const left of ["sandbox exec shop -- ls -l", "sandbox exec shop --data d -- ls", "sandbox exec shop --help"]) {
      expect(apart(left)).toBe(left);
    }
    expect(apart("build sandbox exec a -b")).toBe("build sandbox exec a -b");
  });
});

describe("a closed output", () => {
  it.each(["EPIPE", "EIO"])("is reported once, and nothing more is written: %s", async (code) => {
    const { stream, fail, written } = breaking();
    const out = createOutput({ stdout: stream, stderr: stream, environment: {} });
    let closings = 0;
    out.onClosed(() => (closings += 1));
    fail(code);
    fail(code);
    out.line("nobody reads this");
    await out.drained();
    expect([closings, written.join("")]).toEqual([1, ""]);
  });

  it("is not confused with other errors of the stream", () => {
    const { stream, fail } = breaking();
    createOutput({ stdout: stream, stderr: breaking().stream, environment: {} });
    expect(() => fail("EBADF")).toThrow("EBADF");
  });

  it("assumes 80 by 24 for a terminal that does not know its size", () => {
    const { stream } = breaking();
    const out = createOutput({ stdout: { ...stream, columns: 0, rows: 0 }, stderr: stream, environment: {} });
    expect(out.size()).toEqual({ columns: 80, rows: 24 });
  });
});
