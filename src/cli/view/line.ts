import type { Tone } from "../output/palette.ts";

/** One line about something that happened. */
export interface Line {
  readonly tone: Tone;
  readonly text: string;
  /** Left out of the live view, which shows it in another way. */
  readonly minor?: boolean;
}
