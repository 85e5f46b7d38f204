import { isIPv4, isIPv6 } from "node:net";
import { itemAt } from "../../domain/known.ts";

/** The destination of a request. */
export interface Target {
  /** In lower case, without a trailing dot; an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
  readonly isAddress: boolean;
}

const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * Parses `host`, `host:port` or `[address]:port`; null for anything else. IPv4 addresses count in
 * dotted form only: other forms that a resolver accepts (`2130706433`, `0x7f.1`, `0177.0.0.1`) are
 * refused.
 */
export function parseTarget(text: string, usualPort: number | null): Target | null {
  const parts = /^(?:\[([0-9a-f:.]+)\]|([^:[\]@/\\?#\s]+))(?::(\d{1,5}))?$/i.exec(text);
  if (parts === null) return null;
  const [, address, name, digits] = parts;
  const port = digits === undefined ? usualPort : Number(digits);
  if (port === null || port < 1 || port > 65_535) return null;
  if (address !== undefined) return isIPv6(address) ? { host: address.toLowerCase(), port, isAddress: true } : null;
  const host = (name ?? "").toLowerCase().replace(/\.$/, "");
  if (isIPv4(host)) return { host, port, isAddress: true };
  return isName(host) ? { host, port, isAddress: false } : null;
}

function isName(host: string): boolean {
  const labels = host.split(".");
  if (host.length > 253 || !labels.every((one) => label.test(one))) return false;
  return !/^(?:\d+|0x[0-9a-f]*)$/.test(itemAt(labels, -1));
}

/** Formats a target, with the port only where it is needed. */
export function targetText({ host, port }: Target, usualPorts: readonly number[] = []): string {
  const name = isIPv6(host) ? `[${host}]` : host;
  return usualPorts.includes(port) ? name : `${name}:${port}`;
}
