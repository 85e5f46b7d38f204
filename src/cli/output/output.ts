import { createPaint, type Paint } from "./palette.ts";

/** The part of a stream that is used here; `process.stdout` is one. */
interface OutputStream {
  write(text: string | Uint8Array, done?: () => void): boolean;
  on(event: "error" | "resize", listener: (error: Error) => void): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** A command's output: results go to standard output, everything else to standard error. */
export interface Output {
  /** A terminal that can redraw: not a pipe, not TERM=dumb. */
  readonly live: boolean;
  readonly paint: Paint;
  readonly paintError: Paint;
  line(text: string): void;
  /** Writes one JSON object on one line. */
  json(value: unknown): void;
  /** Writes text unchanged, without a line end. */
  raw(text: string | Uint8Array): void;
  rawError(text: string | Uint8Array): void;
  /** Writes a remark, warning or phase to standard error. */
  note(text: string): void;
  size(): { columns: number; rows: number };
  onResize(listener: () => void): void;
  /** Calls back once when the reader of standard output is gone (`| head`, a closed terminal). */
  onClosed(listener: () => void): void;
  /** Resolves when everything written has left this process. */
  drained(): Promise<void>;
}

export interface OutputOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Errors of a pipe without a reader and of a closed terminal. */
const gone: ReadonlySet<string> = new Set(["EPIPE", "EIO", "ENXIO"]);

export function createOutput({ stdout, stderr, environment }: OutputOptions): Output {
  const dumb = environment.TERM === "dumb";
  const mayColor = !dumb && (environment.NO_COLOR ?? "") === "";
  let closed = false;
  const closedListeners: (() => void)[] = [];
  stdout.on("error", (error) => {
    if (!gone.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    if (closed) return;
    closed = true;
    for (const listener of closedListeners) listener();
  });
  stderr.on("error", () => {
    // Losing standard error is fine: its reader chose to close it.
  });
  const write = (text: string | Uint8Array): void => {
    if (!closed) stdout.write(text);
  };
  return {
    live: stdout.isTTY === true && !dumb,
    paint: createPaint(stdout.isTTY === true && mayColor),
    paintError: createPaint(stderr.isTTY === true && mayColor),
    line: (text) => write(`${text}\n`),
    json: (value) => write(`${JSON.stringify(value)}\n`),
    raw: write,
    rawError: (text) => void stderr.write(text),
    note: (text) => void stderr.write(`${text}\n`),
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    onResize: (listener) => void stdout.on("resize", listener),
    onClosed: (listener) => void closedListeners.push(listener),
    drained: async () => {
      if (!closed) await new Promise<void>((done) => stdout.write("", done));
      await new Promise<void>((done) => stderr.write("", done));
    },
  };
}
