import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { describeError, errorJson } from "./output/errors.ts";
import { exit, exitCodeForError } from "./output/exit-codes.ts";
import { createHints } from "./output/hints.ts";
import { createOutput, type Output } from "./output/output.ts";
import { createProgram, isHelp } from "./program.ts";
import { withCommandApart } from "./sandbox-commands.ts";

/** Runs this process's command line, then exits. */
export async function main(self: NodeJS.Process): Promise<never> {
  const out = createOutput({ stdout: self.stdout, stderr: self.stderr, environment: self.env });
  const code = await runCommandLine(self.argv.slice(2), out, self.env);
  await out.drained();
  self.exit(code);
}

/** Runs one command and returns its exit code. Never throws. */
export async function runCommandLine(
  words: readonly string[],
  out: Output,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  let code: number = exit.ok;
  const done = (ended: number): void => {
    code = ended;
  };
  const program = createProgram({ out, environment, version: version(), done });
  const apart = withCommandApart(program, words);
  try {
    if (words.length === 0) {
      program.outputHelp({ error: true });
      return exit.usage;
    }
    await program.parseAsync(apart, { from: "user" });
    return code;
  } catch (error) {
    const { verbose, data, server } = program.opts<{ verbose?: boolean; data?: string; server?: string }>();
    const hints = createHints({ environment, data, server });
    // Commander has already printed its message.
    if (!(error instanceof CommanderError)) out.note(describeError(error, { verbose: verbose === true, hints }));
    if (asksForJson(apart) && !isHelp(error)) out.json(errorJson(error, hints));
    return exitCodeForError(error);
  }
}

/** Reads `--json` itself, because commander stops at a wrong option. */
function asksForJson(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end === -1 ? words.length : end).includes("--json");
}

function version(): string {
  for (const place of ["../../package.json", "../../../package.json"]) {
    try {
      return JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8")).version;
    } catch {
      // The built package is one folder deeper.
    }
  }
  return "unknown";
}
