import type { Tone } from "../palette.ts";

/** One line of what happened. */
export interface Line {
  readonly tone: Tone;
  readonly text: string;
  /** Left out of a live view, which shows it otherwise. */
  readonly minor?: boolean;
}
