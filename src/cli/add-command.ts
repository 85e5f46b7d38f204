import type { Command, OptionValues } from "commander";
import type { Context } from "./context.ts";

/** The words of a command line. A usage such as `cancel <build>` promises the first. */
export type Words<Usage extends string> = Usage extends `${string} <${string}` ? [string, ...string[]] : string[];
type Handler<Usage extends string> = (context: Context, words: Words<Usage>, options: OptionValues) => Promise<number>;
/** Adds a command to a parent, such as `cancel <build>`; its code is loaded when it is called. */
export type AddCommand = <Usage extends string>(
  parent: Command,
  usage: Usage,
  description: string,
  handler: Handler<Usage>,
) => Command;
