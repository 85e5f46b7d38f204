// A lock between processes of one machine, held by a numbered ticket in a folder.
//
// HL1. The ticket with the highest number is the lock. It is free once released or when its holder
// is dead. The process id, its start time and the machine's boot identify a holder, so a dead one
// stays dead.
// HL2. A process takes the lock by creating the next number with link(2), which only one process
// can do and which never shows partial text.
// HL3. The highest ticket is never removed, so a process that looked late sees a number above its
// own and backs off.
import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { WavesmithError } from "../../domain/errors.ts";
import { machineBootId, processStart } from "./processes.ts";

interface Ticket {
  readonly token: string;
  readonly held: boolean;
  readonly pid: number;
  readonly startedAt: string | null;
  readonly boot: string;
}

/**
 * Runs `body` while no other process, and no other caller in this one, holds the lock in `folder`.
 * The lock of a killed holder is free at once. Fails with `sandbox-unavailable`, retryable, when a
 * living one holds it for `waitMs`.
 */
export async function withLock<Result>(folder: string, waitMs: number, body: () => Promise<Result>): Promise<Result> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const ticket: Ticket = {
    token: randomBytes(9).toString("hex"),
    held: true,
    pid: process.pid,
    startedAt: processStart(process.pid),
    boot: machineBootId(),
  };
  const number = await acquire(folder, ticket, performance.now() + waitMs);
  try {
    return await body();
  } finally {
    const draft = writeDraft(folder, { ...ticket, held: false });
    renameSync(draft, join(folder, String(number)));
  }
}

async function acquire(folder: string, ticket: Ticket, deadline: number): Promise<number> {
  for (;;) {
    const top = highest(folder);
    const holder = top === 0 ? null : readTicket(folder, top);
    if (holder === null || !isHeld(holder)) {
      if (claim(folder, top + 1, ticket)) return top + 1;
    } else if (performance.now() > deadline) {
      throw new WavesmithError("sandbox-unavailable", `process ${holder.pid} holds the lock ${folder}`, {
        retryable: true,
        remedy: `wait until process ${holder.pid} is done, or end it`,
      });
    }
    await delay(10 + Math.random() * 20);
  }
}

function claim(folder: string, number: number, ticket: Ticket): boolean {
  const draft = writeDraft(folder, ticket);
  try {
    linkSync(draft, join(folder, String(number)));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // EEXIST: another process was faster. ENOENT: the new holder removed our draft.
    if (code === "EEXIST" || code === "ENOENT") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const won = highest(folder) === number;
  if (won) tidy(folder, number);
  else rmSync(join(folder, String(number)), { force: true });
  return won;
}

function writeDraft(folder: string, ticket: Ticket): string {
  const draft = join(folder, `draft-${ticket.token}${ticket.held ? "" : "-released"}`);
  writeFileSync(draft, JSON.stringify(ticket), { mode: 0o600 });
  return draft;
}

function isHeld(ticket: Ticket): boolean {
  return ticket.held && ticket.boot === machineBootId() && processStart(ticket.pid) === ticket.startedAt;
}

function readTicket(folder: string, number: number): Ticket | null {
  try {
    return JSON.parse(readFileSync(join(folder, String(number)), "utf8")) as Ticket;
  } catch (error) {
    // Removed by a later holder, or truncated by a power failure: in both cases nobody holds it.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function highest(folder: string): number {
  return Math.max(0, ...readdirSync(folder).map(Number).filter(Number.isInteger));
}

function tidy(folder: string, number: number): void {
  for (const name of readdirSync(folder)) if (name !== String(number)) rmSync(join(folder, name), { force: true });
}
