import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { CommandPlace } from "./command.ts";

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));

/**
 * Starts a server on a data directory, and creates a command line that works only on that server.
 */
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
    // If it touched a data directory of its own, the test would see it here.
    WAVESMITH_DATA: join(place.folder, "untouched"),
  };
  const stop = async () => {
    serve.child.kill("SIGTERM");
    expect(await serve.ended).toBe(0);
  };
  const startOnServer = (...words: string[]) =>
    spawn(process.execPath, [program, ...words], { cwd: place.folder, env });
  /** Runs a command on a terminal of its own, by util-linux. */
  const startOnTerminal = (...words: string[]) =>
    spawn("script", ["-qec", [process.execPath, program, ...words].map((word) => `'${word}'`).join(" "), "/dev/null"], {
      ...{ cwd: place.folder, env },
    });
  const withInput = (input: string, ...words: string[]) => toEnd(startOnServer(...words), input);
  const onServer = (...words: string[]) => withInput("", ...words);
  /** Runs a command on the server and on its data directory, which must print the same. */
  const same = async (words: readonly string[], input = ""): Promise<string> => {
    const there = await withInput(input, ...words);
    const here = await toEnd(place.start(...words).child, input);
    expect(timeless(there.text), words.join(" ")).toBe(timeless(here.text));
    expect(there.code, words.join(" ")).toBe(here.code);
    return here.text;
  };
  return { onServer, withInput, startOnServer, startOnTerminal, same, stop, url, key: env.WAVESMITH_KEY };
}

/** Gives a command its input, and waits until it ends. */
const toEnd = (child: ChildProcess, input: string) =>
  new Promise<{ code: number | null; text: string }>((resolve) => {
    // One after the other, because which of the two streams arrives first is random.
    const texts = { out: "", err: "" };
    child.stdout?.on("data", (data: Buffer) => {
      texts.out += data.toString();
    });
    child.stderr?.on("data", (data: Buffer) => {
      texts.err += data.toString();
    });
    child.stdin?.on("error", () => undefined); // It ended before it had read its input.
    child.stdin?.end(input);
    child.on("close", (code) => resolve({ code, text: texts.out + texts.err }));
  });

/** Times, ages and the names of the two places change from one moment to the next. */
export const timeless = (text: string): string =>
  text
    .replace(/(?:\b\d+(?:\.\d+)?(?:ms|s|m|h)\b ?)+/g, "TIME ")
    .replace(/(?:\bjust now|\b\d+ (?:second|minute|hour)s? ago) */g, "AGO ")
    .replace(/"(durationMs|idleMs|cpus|memoryBytes|processes)":[\d.]+/g, '"$1":0')
    .replace(/\b\d+\.\d\d +\d+(?:\.\d+)? [KM]iB/g, "USE")
    .replace(/^(?:fetch it: git fetch .*|put .* on a branch: .*)$/m, "RESULT")
    .replace(/ --data [^\s,"]+/g, "")
    .replace(/^starting the database\n/m, "")
    // They determine the width of a column.
    .replace(/ {2,}/g, "  ");
