import { type ChildProcess, spawn } from "node:child_process";
import { createTail } from "./commands.ts";
import { Refused } from "./files.ts";

/** Programs that keep running beside the agent, such as a server to test against. */
export interface BackgroundPrograms {
  /** Starts a shell command; returns its name. */
  start(command: string): string;
  /** Returns what it has printed since the last call, and whether it still runs. */
  read(name: string): string;
  stop(name: string): string;
  /** Ends all of them. */
  close(): void;
}

const maxPrograms = 8;

interface Program {
  readonly child: ChildProcess;
  tail: ReturnType<typeof createTail>;
  end: string | null;
}

export function createBackground(tree: string): BackgroundPrograms {
  const programs = new Map<string, Program>();
  const get = (name: string): Program => {
    const program = programs.get(name);
    if (program !== undefined) return program;
    throw new Refused(
      `there is no background program ${name}: ${[...programs.keys()].join(", ") || "none was started"}`,
    );
  };
  const kill = ({ child, end }: Program): void => {
    if (end !== null || child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  };
  return {
    start(command) {
      const running = [...programs.values()].filter(({ end }) => end === null);
      if (running.length >= maxPrograms)
        throw new Refused(`${maxPrograms} background programs are running: stop one first`);
      const name = `program-${programs.size + 1}`;
      const child = spawn("sh", ["-c", command], { cwd: tree, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      const program: Program = { child, tail: createTail(), end: null };
      programs.set(name, program);
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => program.tail.take(chunk));
      child.once("error", (error) => {
        program.end = error.message;
      });
      child.once("exit", (code, signal) => {
        program.end = signal === null ? `exit code ${code}` : `ended by ${signal}`;
      });
      return name;
    },
    read(name) {
      const program = get(name);
      const output = program.tail.text();
      program.tail = createTail();
      return `${output}\n[${program.end ?? "still running"}]`;
    },
    stop(name) {
      kill(get(name));
      return "stopped";
    },
    close: () => [...programs.values()].forEach(kill),
  };
}
