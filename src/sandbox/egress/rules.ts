import { allowedHosts, type NetworkPolicy } from "../../domain/sandbox/network.ts";
import { type AddressKind, kindOfAddress } from "./addresses.ts";
import { parseTarget, type Target, targetText } from "./target.ts";

/** The ports of an allowed host without a port. */
export const usualPorts: readonly number[] = [80, 443];

interface Rule {
  readonly host: string;
  /** Every host below `host`, but not `host` itself. */
  readonly below: boolean;
  /** Null for the usual ones. */
  readonly port: number | null;
  /** The plan names this very host, so it may be on a private network. */
  readonly mayBePrivate: boolean;
}

/** Why a target is refused, in one line that also says what to do. */
export interface TargetRefusal {
  readonly why: "unlisted" | "never" | "private";
  readonly line: string;
}

/** The rules for what a sandbox may reach. */
export interface Rules {
  /** Checks the name alone, before any name server is asked. Null when it may be reached. */
  refuse(target: Target): TargetRefusal | null;
  /** Returns the host's addresses that may be connected to, or the refusal when there are none. */
  permitted(target: Target, addresses: readonly string[]): readonly string[] | TargetRefusal;
}

/** Creates the rules of a policy. `kindOf` classifies addresses. */
export function createRules(policy: NetworkPolicy, kindOf = kindOfAddress): Rules {
  const named = new Set(policy.hosts);
  const rules = allowedHosts(policy).flatMap((host) => ruleOf(host, named.has(host)));
  const matching = (target: Target) => rules.filter((rule) => matches(rule, target));
  return {
    refuse(target) {
      if (target.isAddress && kindOf(target.host) === "never") return closed(target, ["never"]);
      return matching(target).length > 0 ? null : unlisted(target);
    },
    permitted(target, addresses) {
      const mayBePrivate = matching(target).some((rule) => rule.mayBePrivate);
      const kinds = addresses.map((address) => ({ address, kind: kindOf(address) }));
      const fine = kinds.filter(({ kind }) => kind === "public" || (kind === "private" && mayBePrivate));
      if (fine.length > 0) return fine.map(({ address }) => address);
      const why = kinds.map(({ kind }) => kind);
      return closed(target, why);
    },
  };
}

function ruleOf(entry: string, named: boolean): Rule[] {
  const below = entry.startsWith("*.");
  const target = parseTarget(below ? entry.slice(2) : entry, 0xffff);
  if (target === null) return [];
  const port = /:\d+$/.test(entry) ? target.port : null;
  return [{ host: target.host, below, port, mayBePrivate: named && !below }];
}

function matches({ host, below, port }: Rule, target: Target): boolean {
  const isHost = below ? !target.isAddress && target.host.endsWith(`.${host}`) : target.host === host;
  return isHost && (port === null ? usualPorts.includes(target.port) : port === target.port);
}

function unlisted(target: Target): TargetRefusal {
  const text = targetText(target, usualPorts);
  const line = `${text} is not among the hosts this plan may reach`;
  const how = text.startsWith("[") ? "give it a name and allow that" : `allow it in the plan: ${entryFor(text)}`;
  return { why: "unlisted", line: `${line}; ${how}` };
}

function closed(target: Target, kinds: readonly AddressKind[]): TargetRefusal {
  const text = targetText(target, usualPorts);
  if (!kinds.includes("private")) {
    const line = "an address that no sandbox may reach: this machine itself, link-local or metadata";
    return { why: "never", line: `${text} ${target.isAddress ? "is" : "has"} ${line}` };
  }
  const line = `${text} has a private address, which sandboxes reach only if the plan names the host itself`;
  return { why: "private", line: `${line}: ${entryFor(text)}` };
}

const entryFor = (text: string): string => `network: { allow: ["${text}"] }`;
