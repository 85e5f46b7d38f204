import { type CommandVerb, commandVerbs } from "../domain/events/outside.ts";

/** A comment's command: `/wavesmith VERB text`. */
export interface GivenCommand {
  readonly verb: CommandVerb;
  readonly text: string;
}

/**
 * Reads the command at the beginning of a comment; its text goes on to the comment's end. Returns
 * null for a comment without a command, and `unknown` for a word that is no verb.
 */
export function readCommand(comment: string): GivenCommand | "unknown" | null {
  const match = /^\s*\/wavesmith(?=\s|$)(?:[ \t]+(\S+))?([\s\S]*)$/.exec(comment);
  if (match === null) return null;
  const verb = commandVerbs.find((known) => known === match[1]?.toLowerCase());
  return verb === undefined ? "unknown" : { verb, text: (match[2] ?? "").trim() };
}
