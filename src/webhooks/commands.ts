import { type CommandVerb, commandVerbs } from "../domain/events/outside.ts";

/** A comment's command: `/wavesmith VERB text`. */
export interface GivenCommand {
  readonly verb: CommandVerb;
  readonly text: string;
}

/**
 * Reads the command at the start of a comment; the rest of the comment is its text. Returns null if
 * there is no command, and `unknown` for an unknown verb.
 */
export function readCommand(comment: string): GivenCommand | "unknown" | null {
  const match = /^\s*\/wavesmith(?=\s|$)(?:[ \t]+(\S+))?([\s\S]*)$/.exec(comment);
  if (match === null) return null;
  const verb = commandVerbs.find((known) => known === match[1]?.toLowerCase());
  return verb === undefined ? "unknown" : { verb, text: (match[2] ?? "").trim() };
}
