import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { WavesmithError } from "../domain/errors.ts";

// A git that answers many questions. To start one costs this process and the machine several times
// what most answers cost, and each task asks a handful.
// C1. Nothing is remembered between questions here; git itself looks at refs and at objects it does
// not know each time.
// C2. It ends with its standard input, so also with this process, however that ends.

/** How long one that nobody asks is kept. */
const idleMs = 1_000;
const mostBytes = 256 * 1024 * 1024;
/** What git remembers of objects it has seen grows with each question. */
const mostQuestions = 5_000;

export interface Conversation {
  /**
   * Writes a question and returns what git says up to and without `end`, which nothing but the end
   * of an answer may hold. Fails with `git` when git ends instead.
   */
  ask(question: string, end: string): Promise<Buffer>;
}

interface Open {
  readonly child: ChildProcessWithoutNullStreams;
  questions: number;
  /** Why it can be asked no more. */
  ended: string | null;
  /** The question under way. */
  onNews: () => void;
  chunks: Buffer[];
  size: number;
  stderr: string;
}

/**
 * Asks what `start` makes, one question at a time; started when there is one, ended when there is
 * none for a while.
 */
export function createConversation(start: () => Promise<ChildProcessWithoutNullStreams>): Conversation {
  let open: Open | null = null;
  let turn: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;

  const close = () => {
    open?.child.stdin.end();
    open = null;
  };
  const ready = async (): Promise<Open> => {
    clearTimeout(idle);
    if (open !== null && (open.ended !== null || open.questions >= mostQuestions)) close();
    open ??= listenTo(await start());
    hold(open.child, true);
    return open;
  };
  const answer = async (question: string, end: string): Promise<Buffer> => {
    const asked = await ready();
    asked.questions += 1;
    try {
      return await exchange(asked, question, Buffer.from(end));
    } catch (error) {
      close();
      asked.child.kill("SIGKILL");
      throw error;
    } finally {
      hold(asked.child, false);
      idle = setTimeout(close, idleMs).unref();
    }
  };
  return {
    ask(question, end) {
      const mine = turn.then(() => answer(question, end));
      turn = mine.catch(() => undefined); // its caller is told; the next one only waits
      return mine;
    },
  };
}

function listenTo(child: ChildProcessWithoutNullStreams): Open {
  const open: Open = {
    child,
    questions: 0,
    ended: null,
    onNews: () => undefined,
    chunks: [],
    size: 0,
    stderr: "",
  };
  const endedBy = (reason: string) => {
    open.ended ??= reason;
    open.onNews();
  };
  child.stdout.on("data", (chunk: Buffer) => {
    open.chunks.push(chunk);
    open.size += chunk.length;
    open.onNews();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    open.stderr = (open.stderr + chunk.toString("utf8")).slice(-8192);
  });
  // git may end before it has read a question; "close" says so.
  child.stdin.on("error", () => undefined);
  child.on("error", (error) => endedBy(error.message));
  child.on("close", (code, signal) => endedBy(open.stderr.trim() || `git ended with ${signal ?? `exit code ${code}`}`));
  return open;
}

function exchange(open: Open, question: string, end: Buffer): Promise<Buffer> {
  open.chunks = [];
  open.size = 0;
  return new Promise((resolve, reject) => {
    open.onNews = () => {
      if (endsWith(open, end)) resolve(Buffer.concat(open.chunks).subarray(0, open.size - end.length));
      else if (open.ended !== null) reject(new WavesmithError("git", open.ended));
      else if (open.size > mostBytes) reject(new WavesmithError("git", `git says more than ${mostBytes >> 20} MiB`));
    };
    open.child.stdin.write(question);
    open.onNews();
  });
}

/** Looks at the last chunks only: an answer may come in thousands. */
function endsWith({ chunks, size }: Open, end: Buffer): boolean {
  if (size < end.length) return false;
  let tail = Buffer.alloc(0);
  for (let at = chunks.length - 1; tail.length < end.length; at -= 1) tail = Buffer.concat([chunks[at]!, tail]);
  return tail.subarray(tail.length - end.length).equals(end);
}

/** While nobody waits for an answer, the process may end without closing this. */
function hold(child: ChildProcessWithoutNullStreams, held: boolean): void {
  for (const handle of [child, child.stdin, child.stdout, child.stderr] as unknown as Partial<Holdable>[]) {
    if (held) handle.ref?.();
    else handle.unref?.();
  }
}

interface Holdable {
  ref(): void;
  unref(): void;
}
