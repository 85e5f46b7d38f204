import type { Context } from "../context.ts";
import type { Store } from "../parts.ts";
import { type ShownPreview, watchPreview } from "./show-preview.ts";

export interface ToldPreview {
  readonly context: Context;
  readonly store: Store;
  readonly buildId: string;
  /** Ends at once, even on a terminal. */
  readonly noWait: boolean;
  readonly signal: AbortSignal;
}

/** Prints the address of a preview and, on a terminal, waits for Ctrl-C or the preview's end. */
export async function tellPreview(told: ToldPreview, preview: ShownPreview | string): Promise<void> {
  const { context, store, buildId, noWait, signal } = told;
  const { out, json } = context;
  const say = (text: string): void => (json ? out.note(text) : out.line(text));
  if (typeof preview === "string") {
    say(out.paint("warn", `Preview: not shown: ${preview}`));
    return;
  }
  const stays = out.live && !json && !noWait;
  if (!stays) {
    say(`Preview answered ${preview.status} at ${preview.url}; it stopped when this command ended`);
    out.note("On a terminal, without --no-wait, it stays until Ctrl-C.");
    return;
  }
  say(`Preview: ${out.paint("accent", preview.url)} (answered ${preview.status})`);
  say(out.paint("dim", "It stays until Ctrl-C."));
  const find = () => store.previews.find({ buildId });
  const gone = await watchPreview({ find, say: (text) => say(out.paint("dim", text)), signal });
  say(gone === null ? "\nstopping the preview" : out.paint("warn", `preview stopped: ${gone}`));
}
