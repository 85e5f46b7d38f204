import { shellWord } from "../../domain/shell-word.ts";

/** Writes commands the way this user would type them. */
export interface Hints {
  /** `wavesmith retry bld_x`, with `--data` or `--server` if it was given. */
  command(words: string): string;
  /**
   * Rewrites the commands inside a message, such as a remedy, the way this user would type them.
   */
  rewrite(text: string): string;
}

/**
 * `npm run wavesmith -- …` for users who started it that way, because their PATH has no
 * `wavesmith`.
 */
export function createHints(options: {
  environment: Readonly<Record<string, string | undefined>>;
  data?: string | undefined;
  server?: string | undefined;
}): Hints {
  const script = options.environment.npm_lifecycle_event;
  const program = script === "wavesmith" || script === "demo" ? "npm run wavesmith --" : "wavesmith";
  const { data, server } = options;
  const suffix = data === undefined ? optionText("--server", server) : optionText("--data", data);
  return {
    command: (words) => `${program} ${words}${suffix}`,
    rewrite: (text) =>
      text.replace(ours, (found, words: string, rest: string) =>
        suffix !== "" && rest.startsWith(suffix) ? found : `${program} ${words}${suffix}${rest}`,
      ),
  };
}

const optionText = (name: string, value: string | undefined): string =>
  value === undefined ? "" : ` ${name} ${shellWord(value)}`;

/** Commands named in other parts' messages, with the rest of the line. */
const ours =
  /(?<!-- )\bwavesmith ((?:resume|retry|cancel|status|logs|diff|approve|reject|answer|rollback|shell|preview|attach) bld_\w+|builds|doctor|agents install \w+|agents|serve(?: --engine \w+)?|sandbox image build|sandbox snapshot --list|sandbox ls|sandbox (?:exec|rm|start|stop) [\w.-]+)((?: --(?:data|server) (?:'[^']*'|\S+))?)/g;
