import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bundledProgram } from "../support/bundled-program.ts";
import { requires } from "../support/require.ts";

const program = await bundledProgram("letter-process");

it.runIf(requires("terminal"))("drops what a real terminal held before it was asked", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-letter-"));
  const opened = join(folder, "opened");
  const command = `'${process.execPath}' '${program}' '${opened}'`;
  const child = spawn("script", ["-qec", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  try {
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    const until = (text: string) => expect.poll(() => output, { timeout: 30_000 }).toContain(text);
    await until("[begun]");
    child.stdin.write("a\na\n");
    await until("a\r\na\r\n"); // The terminal has received it, and echoes it.
    writeFileSync(opened, "");
    await until("[asked]");
    child.stdin.write("d");
    await until("[typing d]");
    child.stdin.write("\r");
    await ended;
    expect(output).toContain("[answer d]");
    expect(output).not.toContain("[answer a]");
  } finally {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});
