import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";

// A git process that answers many questions. Starting one costs several times more than most
// answers, and each task asks a handful.
// GC1. We cache nothing between questions; git itself reads refs and unknown objects again each
// time.
// GC2. The git process ends when its standard input closes, so it never outlives this process.

/** How long an idle git process is kept. */
const idleMs = 1_000;
const maxAnswerBytes = 256 * 1024 * 1024;
/**
 * After this many questions git is restarted, because its object cache grows with each question.
 */
const maxQuestions = 5_000;

export interface GitConversation {
  /**
   * Writes a question and returns git's output before `end`, a marker that occurs nowhere else in
   * the answer. Fails with `git` if git exits instead.
   */
  ask(question: string, end: string): Promise<Buffer>;
}

interface Open {
  readonly child: ChildProcessWithoutNullStreams;
  questions: number;
  /** Why the process ended; null while it runs. */
  ended: string | null;
  /** Called on new output and at the end of the process. */
  onChange: () => void;
  chunks: Buffer[];
  size: number;
  stderr: string;
}

/**
 * Creates a conversation with the process that `start` starts, one question at a time. The process
 * starts at the first question and ends after a while without any.
 */
export function createConversation(start: () => Promise<ChildProcessWithoutNullStreams>): GitConversation {
  let open: Open | null = null;
  let lastAnswer: Promise<unknown> = Promise.resolve();
  let idleTimer: NodeJS.Timeout | undefined;

  const close = () => {
    open?.child.stdin.end();
    open = null;
  };
  const openProcess = async (): Promise<Open> => {
    clearTimeout(idleTimer);
    if (open !== null && (open.ended !== null || open.questions >= maxQuestions)) close();
    open ??= listenTo(await start());
    keepAlive(open.child, true);
    return open;
  };
  const answer = async (question: string, end: string): Promise<Buffer> => {
    const process = await openProcess();
    process.questions += 1;
    try {
      return await exchange(process, question, Buffer.from(end));
    } catch (error) {
      close();
      process.child.kill("SIGKILL");
      throw error;
    } finally {
      keepAlive(process.child, false);
      idleTimer = setTimeout(close, idleMs).unref();
    }
  };
  return {
    ask(question, end) {
      const answered = lastAnswer.then(() => answer(question, end));
      lastAnswer = answered.catch(() => undefined); // its caller gets the error; the next question only waits
      return answered;
    },
  };
}

function listenTo(child: ChildProcessWithoutNullStreams): Open {
  const open: Open = {
    child,
    questions: 0,
    ended: null,
    onChange: () => undefined,
    chunks: [],
    size: 0,
    stderr: "",
  };
  const endedBy = (reason: string) => {
    open.ended ??= reason;
    open.onChange();
  };
  child.stdout.on("data", (chunk: Buffer) => {
    open.chunks.push(chunk);
    open.size += chunk.length;
    open.onChange();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    open.stderr = (open.stderr + chunk.toString("utf8")).slice(-8192);
  });
  // Git may exit before it has read a question; "close" reports that.
  child.stdin.on("error", () => undefined);
  child.on("error", (error) => endedBy(error.message));
  child.on("close", (code, signal) => endedBy(open.stderr.trim() || `git ended with ${signal ?? `exit code ${code}`}`));
  return open;
}

function exchange(open: Open, question: string, end: Buffer): Promise<Buffer> {
  open.chunks = [];
  open.size = 0;
  return new Promise((resolve, reject) => {
    open.onChange = () => {
      if (endsWith(open, end)) resolve(Buffer.concat(open.chunks).subarray(0, open.size - end.length));
      else if (open.ended !== null) reject(new WavesmithError("git", open.ended));
      else if (open.size > maxAnswerBytes)
        reject(new WavesmithError("git", `git's answer exceeds ${maxAnswerBytes >> 20} MiB`));
    };
    open.child.stdin.write(question);
    open.onChange();
  });
}

/** Checks only the last chunks, because an answer may arrive in thousands of them. */
function endsWith({ chunks, size }: Open, end: Buffer): boolean {
  if (size < end.length) return false;
  let tail = Buffer.alloc(0);
  for (let at = chunks.length - 1; tail.length < end.length; at -= 1) tail = Buffer.concat([itemAt(chunks, at), tail]);
  return tail.subarray(tail.length - end.length).equals(end);
}

/** Lets this process exit while nobody waits for an answer. */
function keepAlive(child: ChildProcessWithoutNullStreams, isHeld: boolean): void {
  for (const handle of [child, child.stdin, child.stdout, child.stderr] as unknown as Partial<Holdable>[]) {
    if (isHeld) handle.ref?.();
    else handle.unref?.();
  }
}

interface Holdable {
  ref(): void;
  unref(): void;
}
