import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { CommandPlace } from "./command.ts";

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));

/** Starts a server on a data directory, and gives a command line that works on that server alone. */
export async function serveAt(place: CommandPlace) {
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
  const onServer = (...words: string[]) => withInput("", ...words);
  const withInput = (input: string, ...words: string[]) =>
    new Promise<{ code: number | null; text: string }>((resolve) => {
      const child = spawn(process.execPath, [program, ...words], { cwd: place.folder, env });
      child.stdin.on("error", () => undefined); // It ended before it read.
      child.stdin.end(input);
      let text = "";
      child.stdout.on("data", (data: Buffer) => {
        text += data.toString();
      });
      child.stderr.on("data", (data: Buffer) => {
        text += data.toString();
      });
      child.on("close", (code) => resolve({ code, text }));
    });
  return { onServer, withInput, stop, url, key: env.WAVESMITH_KEY };
}

/** Times, ages and the names of the two places differ from one moment to the next. */
export const timeless = (text: string): string =>
  text
    .replace(/(?:\b\d+(?:\.\d+)?(?:ms|s|m|h)\b ?)+/g, "TIME ")
    .replace(/"durationMs":\d+/g, '"durationMs":0')
    .replace(/ --data [^\s,]+/g, "");
