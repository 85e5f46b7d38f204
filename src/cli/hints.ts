import { shellWord } from "../domain/shell-word.ts";

/** Writes commands as this user would type them. */
export interface Hints {
  /** `wavesmith retry bld_x`, with `--data` when it was given. */
  command(words: string): string;
  /**
   * Text that names commands of ours, such as the remedy of an error, with these as the user would
   * type them.
   */
  rewrite(text: string): string;
}

/** `npm run wavesmith -- …` for somebody who came that way, since their PATH has no `wavesmith`. */
export function createHints(options: {
  environment: Readonly<Record<string, string | undefined>>;
  data?: string | undefined;
}): Hints {
  const script = options.environment.npm_lifecycle_event;
  const program = script === "wavesmith" || script === "demo" ? "npm run wavesmith --" : "wavesmith";
  const suffix = options.data === undefined ? "" : ` --data ${shellWord(options.data)}`;
  return {
    command: (words) => `${program} ${words}${suffix}`,
    rewrite: (text) =>
      text.replace(ours, (found, words: string, rest: string) =>
        suffix !== "" && rest.startsWith(suffix) ? found : `${program} ${words}${suffix}${rest}`,
      ),
  };
}

/** Commands of ours that messages of other parts name, and the rest of their line. */
const ours =
  /(?<!-- )\bwavesmith ((?:resume|retry|cancel|status|logs|diff|approve|reject|answer|rollback|shell) bld_\w+|builds|doctor|agents install \w+|agents|serve(?: --engine \w+)?|sandbox image build|sandbox snapshot --list|sandbox (?:exec|rm|stop) [\w.-]+)((?: --data (?:'[^']*'|\S+))?)/g;
