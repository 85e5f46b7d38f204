import { eventJson, type RecordedEvent } from "../../api/event-json.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { Context } from "../context.ts";
import type { Line } from "./line.ts";
import { renderLive, spin } from "./live.ts";
import { messageNews } from "./message-lines.ts";
import { narrate } from "./narrate.ts";
import { questionNews } from "./question-lines.ts";
import { createScreen } from "./screen.ts";
import { segment } from "./segments.ts";

/** Shows a running command as JSON lines, plain lines or a live view. */
export interface Presenter {
  /** Shows what the command is doing before there is a build to show. */
  phase(text: string): void;
  lines(lines: readonly Line[]): void;
  event(event: RecordedEvent): void;
  /** `label` prefixes every line if another command's build is shown. */
  view(before: BuildView | null, after: BuildView, label?: string): void;
  /** Shows what is typed in answer to the open question. */
  typing(line: string): void;
  warn(message: string): void;
  /** Ends the live view; lines printed after it stay. */
  close(): void;
}

export function createPresenter(context: Context): Presenter {
  if (context.json) return jsonPresenter(context);
  return context.out.live ? livePresenter(context) : plainPresenter(context);
}

function jsonPresenter({ out, warn }: Context): Presenter {
  const nothing = (): void => undefined;
  return {
    phase: nothing,
    lines: nothing,
    event: (event) => out.json(eventJson(event)),
    view: nothing,
    typing: nothing,
    warn,
    close: nothing,
  };
}

const labelled = (lines: readonly Line[], label = ""): Line[] =>
  lines.map((line) => ({ ...line, text: `${label}${line.text}` }));

const linesBetween = (before: BuildView | null, after: BuildView, { command }: Context["hints"]): Line[] => [
  ...narrate(before, after),
  ...questionNews(before, after, command),
  ...messageNews(before, after),
];

/** A pipe gets progress only after this much silence. */
const silenceMs = 1_500;

function plainPresenter({ out, warn, hints }: Context): Presenter {
  let silence: NodeJS.Timeout | undefined;
  const lines = (all: readonly Line[]): void => {
    if (all.length > 0) clearTimeout(silence);
    for (const { tone, text } of all) out.line(out.paint(tone, text));
  };
  return {
    phase(text) {
      clearTimeout(silence);
      silence = setTimeout(() => out.note(text), silenceMs);
    },
    lines,
    event: () => undefined,
    view: (before, after, label) => lines(labelled(linesBetween(before, after, hints), label)),
    typing: () => undefined,
    warn,
    close: () => clearTimeout(silence),
  };
}

const frameMs = 100;

function livePresenter({ out, warning, hints }: Context): Presenter {
  const screen = createScreen(out);
  let phase: string | null = null;
  let shown: BuildView | null = null;
  let frame = 0;
  let typed = "";
  const draw = (): void => {
    const { rows, columns } = out.size();
    const options = { rows: Math.min(rows - 2, 40), columns, now: new Date(), frame, typed };
    if (shown !== null) screen.show(renderLive(shown, options));
    else if (phase !== null) screen.show([[segment("accent", spin(frame)), segment("plain", ` ${phase}`)]]);
  };
  const timer = setInterval(() => {
    frame += 1;
    draw();
  }, frameMs);
  timer.unref();
  out.onResize(draw);
  const restore = (): void => screen.close();
  process.once("exit", restore);
  return {
    phase(text) {
      phase = text;
      draw();
    },
    lines: (lines) => screen.log(lines.map(({ tone, text }) => out.paint(tone, text))),
    event: () => undefined,
    view(before, after, label) {
      shown = after;
      const news = labelled(linesBetween(before, after, hints), label).filter((line) => line.minor !== true);
      if (news.length > 0) screen.log(news.map(({ tone, text }) => out.paint(tone, text)));
      draw();
    },
    typing(line) {
      typed = line;
      draw();
    },
    warn(message) {
      const text = warning(message);
      if (text !== null) screen.log([out.paint("warn", `warning: ${text}`)]);
    },
    close() {
      clearInterval(timer);
      phase = null;
      shown = null;
      screen.close();
      process.off("exit", restore);
    },
  };
}
