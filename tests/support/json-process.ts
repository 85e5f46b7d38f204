import { spawn } from "node:child_process";
import { requires } from "./require.ts";

export interface JsonProcess {
  /** Run with node; see `bundledProgram`. */
  readonly program: string;
  /** Its one argument, as JSON. */
  readonly input: object;
  readonly env: Readonly<Record<string, string>>;
  /**
   * After this long the process is asked to end, when it says what it is waiting for; it is killed
   * 20 s later. Absent: never.
   */
  readonly patienceMs?: number;
}

export interface JsonProcessEnd<Line> {
  readonly code: number | null;
  readonly signal: string | null;
  readonly lines: Line[];
  /** What it wrote to standard error. */
  readonly errors: string;
}

/**
 * Runs a process that prints one JSON object per line until it ends or is killed, and returns its
 * complete lines.
 */
export async function runJsonProcess<Line>(of: JsonProcess): Promise<JsonProcessEnd<Line>> {
  const child = spawn(process.execPath, [of.program, JSON.stringify(of.input)], {
    env: { ...process.env, ...of.env, WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  child.stderr.on("data", (data: Buffer) => {
    errors += data.toString();
  });
  const timers =
    of.patienceMs === undefined
      ? []
      : [
          setTimeout(() => child.kill("SIGTERM"), of.patienceMs),
          setTimeout(() => child.kill("SIGKILL"), of.patienceMs + 20_000),
        ];
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    // Not `close`, because programs that the killed process started may hold its pipes.
    child.once("exit", (...how) => setTimeout(resolve, 50, how));
  });
  timers.forEach(clearTimeout);
  const whole = output.slice(0, output.lastIndexOf("\n") + 1).split("\n");
  return { code, signal, errors, lines: whole.filter(Boolean).map((line) => JSON.parse(line) as Line) };
}

/**
 * Returns the output lines of a process that may kill itself (SIGKILL), and otherwise exits with 0.
 */
export async function linesUntilKilled<Line>(of: JsonProcess): Promise<Line[]> {
  const { code, signal, lines, errors } = await runJsonProcess<Line>(of);
  if (code !== 0 && signal !== "SIGKILL") throw new Error(`the process ended with ${code ?? signal}: ${errors}`);
  return lines;
}
