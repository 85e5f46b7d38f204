import { lookup } from "node:dns/promises";
import { connect, type Socket } from "node:net";
import { messageOf } from "../../domain/errors.ts";
import type { Rules, TargetRefusal } from "./rules.ts";
import { type Target, targetText } from "./target.ts";

/** Resolves a name to its addresses. */
export type Lookup = (host: string) => Promise<readonly string[]>;

export const systemLookup: Lookup = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/** Why an allowed host was not reached. */
interface NoConnection {
  readonly status: 502 | 504;
  readonly line: string;
  /** The system's words. */
  readonly problem: string;
}

export type Dialled =
  | { readonly socket: Socket }
  | { readonly refusal: TargetRefusal }
  | { readonly failure: NoConnection };

export interface DialOptions {
  readonly rules: Rules;
  readonly lookup: Lookup;
  readonly connectMs: number;
}

/**
 * Resolves the host once and connects to one of the checked addresses, so that a second answer of
 * the name server changes nothing.
 */
export async function dial(target: Target, { rules, lookup, connectMs }: DialOptions): Promise<Dialled> {
  const unlisted = rules.refuse(target);
  if (unlisted !== null) return { refusal: unlisted };
  let addresses: readonly string[];
  try {
    addresses = target.isAddress ? [target.host] : await lookup(target.host);
  } catch (error) {
    const problem = codeOf(error);
    return { failure: { status: 502, line: `${target.host} is allowed but has no address: ${problem}`, problem } };
  }
  const permitted = rules.permitted(target, addresses);
  if ("line" in permitted) return { refusal: permitted };
  return connectToAny(permitted, target, connectMs);
}

/** Tries the addresses one after the other, each for its share of the time at most. */
async function connectToAny(addresses: readonly string[], target: Target, connectMs: number): Promise<Dialled> {
  const shareMs = Math.max(1_000, connectMs / addresses.length);
  let last: unknown = null;
  for (const address of addresses.slice(0, 8)) {
    try {
      return { socket: await connectTo(address, target.port, shareMs) };
    } catch (error) {
      last = error;
    }
  }
  const problem = codeOf(last);
  const line = `${targetText(target)} is allowed and does not answer: ${problem}`;
  return { failure: { status: problem === "ETIMEDOUT" ? 504 : 502, line, problem } };
}

function connectTo(host: string, port: number, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true, autoSelectFamily: false });
    const timer = setTimeout(() => {
      socket.destroy(Object.assign(new Error("timed out"), { code: "ETIMEDOUT" }));
    }, timeoutMs);
    socket.once("error", reject);
    socket.once("close", () => clearTimeout(timer));
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException | null)?.code ?? messageOf(error);
