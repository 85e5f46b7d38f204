// Records `npm run demo` as docs/demo.svg, from a real run in a terminal: `npm run record-demo`.
// Needs `script` of util-linux.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { type Piece, terminalSvg } from "./terminal-svg.ts";

const columns = 110;
const rows = 30;
const target = new URL("../docs/demo.svg", import.meta.url);

const folder = mkdtempSync(join(tmpdir(), "guestbook-"));
try {
  const [log, timing] = [join(folder, "log"), join(folder, "timing")];
  const command = `stty cols ${columns} rows ${rows}; npm run --silent demo -- --no-wait`;
  const arguments_ = ["-q", "-e", "-c", command, "--log-out", log, "--log-timing", timing];
  const env = { ...process.env, WAVESMITH_DATA: join(folder, "data"), TERM: "xterm-256color" };
  execFileSync("script", arguments_, { env, stdio: ["pipe", "inherit", "inherit"] });
  const shown = piecesOf(readFileSync(log), readFileSync(timing, "utf8"));
  const options = { columns, rows, everyMs: 900, showMs: 450, lastMs: 6_000 };
  writeFileSync(target, await terminalSvg([{ atMs: 0, text: "$ npm run demo\r\n" }, ...shown], options));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Reads what `script` logged: lines of the timing say how long after the last how many bytes came.
 */
function piecesOf(log: Buffer, timing: string): Piece[] {
  // The log begins with a line that says what was started.
  let at = log.indexOf(10) + 1;
  let atMs = 0;
  const decoder = new StringDecoder("utf8");
  return timing
    .trim()
    .split("\n")
    .map((line) => {
      const [seconds, bytes] = line.split(" ").slice(-2).map(Number);
      atMs += 1000 * seconds!;
      const text = decoder.write(log.subarray(at, at + bytes!));
      at += bytes!;
      return { atMs, text: text.replaceAll(folder, "/home/you/guestbook") };
    });
}
