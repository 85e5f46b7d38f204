// Gives each job its own loopback in a network namespace, so that no job can listen on a port or
// abstract socket that another job connects to, nor connect to one that another job listens on.
// LN1. A namespace serves one job and is never reused, because one of its sockets may have been
// handed to a process that lives on.
// LN2. No process of a job has rights over its namespace: the user namespace that owns it holds
// only the program that keeps it open.
// LN3. Ports that lead out of the sandbox are opened in the namespace, and their sockets are handed
// to the guest.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, Server, Socket } from "node:net";
import type { Readable } from "node:stream";

const readyTimeoutMs = 20_000;
const connectTimeoutMs = 10_000;

/** A port that leads out of the sandbox, and the server that takes its connections. */
export interface Door {
  readonly port: number;
  readonly server: Server;
}

export interface Loopback {
  /** A command prefix that runs a program in the namespace. */
  readonly enter: readonly string[];
  /** Connects to a port of the namespace's loopback. */
  connect(port: number, host: string): Promise<Socket>;
  /** Ends the namespace. Call it when nothing of its job is left. */
  close(): void;
}

export interface Loopbacks {
  /** Returns a new namespace for a job with these ports. */
  open(ports: readonly number[]): Promise<Loopback>;
  /** Returns the open loopback whose job has this port; null when there is none. */
  withPort(port: number): Loopback | null;
  close(): void;
}

export interface LoopbackPrograms {
  /** Absolute paths. */
  readonly bwrap: string;
  readonly nsenter: string;
  readonly cat: string;
}

/**
 * Creates the first namespace at once to check that it works here; from then on one is always ready
 * for the next job.
 */
export async function createLoopbacks(programs: LoopbackPrograms, doors: readonly Door[]): Promise<Loopbacks> {
  const open = new Map<Loopback, ReadonlySet<number>>();
  let isClosed = false;
  let spare = makeLoopback(programs, doors);
  await spare;
  return {
    open: async (ports) => {
      const taken = spare;
      spare = makeLoopback(programs, doors);
      spare.then(
        (made) => isClosed && made.close(),
        () => undefined, // The job that takes it gets the error.
      );
      const made = await taken;
      const loopback: Loopback = {
        ...made,
        close: () => {
          open.delete(loopback);
          made.close();
        },
      };
      open.set(loopback, new Set(ports));
      return loopback;
    },
    withPort: (port) => [...open].find(([, ports]) => ports.has(port))?.[0] ?? null,
    close: () => {
      isClosed = true;
      for (const loopback of open.keys()) loopback.close();
      spare.then(
        (made) => made.close(),
        () => undefined, // A namespace that failed has nothing to close.
      );
    },
  };
}

async function makeLoopback(programs: LoopbackPrograms, doors: readonly Door[]): Promise<Loopback> {
  const { keeper, pid } = await startKeeper(programs);
  const enter = [programs.nsenter, "--target", String(pid), "--user", "--net", "--preserve-credentials", "--"];
  const servers: Server[] = [];
  let agent: LoopbackAgent | null = null;
  const close = (): void => {
    for (const server of servers) server.close();
    agent?.close();
    keeper.kill("SIGKILL");
  };
  try {
    const opener = createAgent(enter);
    for (const { port, server } of doors) {
      const opened = await opener.ask({ listen: port });
      if (!(opened instanceof Server)) throw new Error(`port ${port} of a job's loopback could not be opened`);
      opened.on("connection", (socket) => server.emit("connection", halfOpen(socket)));
      servers.push(opened);
    }
    opener.close();
  } catch (error) {
    close();
    throw error;
  }
  return {
    enter,
    connect: async (port, host) => {
      agent ??= createAgent(enter);
      const socket = await agent.ask({ connect: port, host });
      if (!(socket instanceof Socket)) throw new Error("refused");
      return halfOpen(socket);
    },
    close,
  };
}

/** Lets each side of a connection end on its own, as with sockets that the guest opens itself. */
function halfOpen(socket: Socket): Socket {
  socket.allowHalfOpen = true;
  socket.setNoDelay(true);
  return socket;
}

/**
 * Starts the program that keeps a namespace open while its stdin is open; resolves once its
 * loopback is up.
 */
async function startKeeper({ bwrap, cat }: LoopbackPrograms): Promise<{ keeper: ChildProcess; pid: number }> {
  const fixed = ["--unshare-user", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL"];
  const args = [...fixed, "--ro-bind", "/", "/", "--clearenv", "--json-status-fd", "3", "--", cat];
  const keeper = spawn(bwrap, args, { env: {}, stdio: ["pipe", "pipe", "pipe", "pipe"] });
  keeper.stdin?.on("error", () => undefined); // Its exit reports the reason.
  keeper.stdin?.write("\n");
  const [pid] = await Promise.race([
    // cat echoes its input once everything around it is set up.
    Promise.all([firstMatch(keeper.stdio[3], /"child-pid": (\d+)/), firstMatch(keeper.stdout, /(\n)/)]),
    rejectAtEnd(keeper),
  ]).catch((error: unknown) => {
    keeper.kill("SIGKILL");
    throw error;
  });
  return { keeper, pid: Number(pid) };
}

function firstMatch(stream: unknown, pattern: RegExp): Promise<string> {
  let text = "";
  return new Promise((resolve) =>
    (stream as Readable).on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const match = pattern.exec(text)?.[1];
      if (match !== undefined) resolve(match);
    }),
  );
}

/** Rejects when a keeper ends or is not ready in time. */
function rejectAtEnd(keeper: ChildProcess): Promise<never> {
  let complaint = "";
  keeper.stderr?.on("data", (chunk: Buffer) => {
    complaint += chunk.toString();
  });
  return new Promise((_, reject) => {
    const fail = (why: string): void => reject(new Error(`a job's network could not be made: ${why}`));
    setTimeout(() => fail("it took too long"), readyTimeoutMs).unref();
    keeper.on("error", (error) => fail(error.message));
    keeper.on("close", () => fail(complaint.trim() || "its keeper ended"));
  });
}

type AgentRequest = { readonly listen: number } | { readonly connect: number; readonly host: string };

interface LoopbackAgent {
  /** Returns the requested socket; null when it cannot be opened. */
  ask(request: AgentRequest): Promise<Server | Socket | null>;
  close(): void;
}

/**
 * Starts a copy of this program in the namespace, which opens sockets there and hands them over.
 */
function createAgent(enter: readonly string[]): LoopbackAgent {
  const [program = "", ...args] = [...enter, process.execPath, process.argv[1] ?? "", "loopback"];
  const child = spawn(program, args, { env: {}, stdio: ["ignore", "ignore", "ignore", "ipc"] });
  const waiting = new Map<number, (handle: Server | Socket | null) => void>();
  let lastId = 0;
  const giveUp = (): void => {
    for (const settle of waiting.values()) settle(null);
    waiting.clear();
  };
  child.on("error", giveUp);
  child.on("exit", giveUp);
  child.on("message", (answer: { id: number }, handle) => {
    waiting.get(answer.id)?.((handle as Server | Socket | undefined) ?? null);
    waiting.delete(answer.id);
  });
  return {
    ask: (request) =>
      new Promise((resolve) => {
        lastId += 1;
        const id = lastId;
        waiting.set(id, resolve);
        child.send({ id, ...request }, (error) => {
          if (error !== null) giveUp();
        });
      }),
    close: () => child.connected && child.disconnect(),
  };
}

/**
 * Runs the program `loopback`: opens the sockets that its parent requests, until it disconnects.
 */
export function serveLoopback(): void {
  const answer = (id: number, handle?: Server | Socket): void => {
    process.send?.({ id }, handle, {}, () => handle instanceof Server && handle.close());
  };
  process.on("message", (request: AgentRequest & { id: number }) => {
    if ("listen" in request) {
      const server = createServer();
      server.on("error", () => answer(request.id));
      server.listen(request.listen, "127.0.0.1", () => answer(request.id, server));
      return;
    }
    const socket = new Socket({ allowHalfOpen: true });
    // The first bytes of the server are for the process that gets the socket.
    socket.pause();
    const refused = (): void => {
      socket.destroy();
      answer(request.id);
    };
    socket.setTimeout(connectTimeoutMs, refused);
    socket.once("error", refused);
    socket.connect({ port: request.connect, host: request.host }, () => {
      socket.setTimeout(0);
      socket.off("error", refused);
      socket.on("error", () => undefined); // The parent owns the socket now.
      answer(request.id, socket);
    });
  });
  process.on("disconnect", () => process.exit(0));
}
