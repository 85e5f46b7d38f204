import type { Command } from "commander";
import { WavesmithError } from "../../domain/errors.ts";
import { completionScript, shells } from "../completion.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";

/** `completion SHELL`: prints the script that completes commands and options in a shell. */
export function completion({ out }: Context, program: Command, name: string): number {
  const shell = shells.find((known) => known === name);
  if (shell === undefined) {
    throw new WavesmithError("usage", `there is no completion for ${name}`, { remedy: `use ${shells.join(", ")}` });
  }
  out.raw(completionScript(shell, program));
  return exit.ok;
}
