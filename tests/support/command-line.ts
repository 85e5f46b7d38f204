import { runCommandLine } from "../../src/cli/main.ts";
import { createOutput } from "../../src/cli/output/output.ts";

/** What a command has written: each stream, and both in the order of their writes. */
interface Written {
  stdout: string;
  stderr: string;
  text: string;
}

/** Runs the command line in this process; returns what it wrote. */
export async function runHere(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = {},
): Promise<Written & { readonly code: number }> {
  const written: Written = { stdout: "", stderr: "", text: "" };
  const stream = (name: "stdout" | "stderr") => ({
    write: (part: string, done?: () => void) => {
      written[name] += part;
      written.text += part;
      done?.();
      return true;
    },
    on: () => undefined,
  });
  const out = createOutput({ stdout: stream("stdout"), stderr: stream("stderr"), environment: {} });
  const code = await runCommandLine(words, out, environment);
  return { code, ...written };
}
