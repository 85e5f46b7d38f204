import { BlockList, isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

/**
 * `never`: this machine, link-local addresses, metadata services and multicast. `private`: outside
 * the public internet, reachable only when the plan names the host.
 */
export type AddressKind = "never" | "private" | "public";

type Subnet = readonly [network: string, bits: number];

const neverV4: readonly Subnet[] = [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
  // Metadata services outside the link-local range: Alibaba, Oracle, Azure.
  ["100.100.100.200", 32],
  ["192.0.0.192", 32],
  ["168.63.129.16", 32],
];
const neverV6: readonly Subnet[] = [
  ["::", 128],
  ["::1", 128],
  ["fe80::", 10],
  ["ff00::", 8],
  // Metadata services: Amazon, Google.
  ["fd00:ec2::", 32],
  ["fd20:ce::", 32],
];
const privateV4: readonly Subnet[] = [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
];
const privateV6: readonly Subnet[] = [
  ["100::", 64],
  ["fc00::", 7],
  ["fec0::", 10],
];

const listOf = (subnets: readonly Subnet[], family: "ipv4" | "ipv6"): BlockList => {
  const list = new BlockList();
  for (const [network, bits] of subnets) list.addSubnet(network, bits, family);
  return list;
};
const lists = {
  ipv4: { never: listOf(neverV4, "ipv4"), private: listOf(privateV4, "ipv4") },
  ipv6: { never: listOf(neverV6, "ipv6"), private: listOf(privateV6, "ipv6") },
};

/** Classifies an address; anything that is not a plain address is `never`. */
export function kindOfAddress(address: string): AddressKind {
  if (isIPv4(address)) return kindIn(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return "never";
  return strictest([kindIn(address, "ipv6"), ...embeddedIn(bytesOf(address)).map((inner) => kindIn(inner, "ipv4"))]);
}

const strictest = (kinds: readonly AddressKind[]): AddressKind =>
  (["never", "private"] as const).find((kind) => kinds.includes(kind)) ?? "public";

function kindIn(address: string, family: "ipv4" | "ipv6"): AddressKind {
  const { never, private: inner } = lists[family];
  if (never.check(address, family)) return "never";
  return inner.check(address, family) || isOurs(address) ? "private" : "public";
}

/** Whether the address belongs to this machine, whose services are not meant for agents. */
function isOurs(address: string): boolean {
  const ours = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  return ours.some((one) => one.address === address);
}

/** Returns the sixteen bytes of an IPv6 address. */
function bytesOf(address: string): number[] {
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [before = "", after] = plain.split("::");
  const words = (part: string | undefined) => (part ? part.split(":").map((word) => Number.parseInt(word, 16)) : []);
  const [head, tail] = [words(before), words(after)];
  const gap = Array<number>(8 - head.length - tail.length).fill(0);
  return [...head, ...gap, ...tail].flatMap((word) => [word >> 8, word & 0xff]);
}

/** Returns the IPv4 addresses to which a gateway or the system may translate an IPv6 address. */
function embeddedIn(bytes: readonly number[]): string[] {
  const starts = (...prefix: number[]) => prefix.every((byte, index) => bytes[index] === byte);
  const at = (from: number) => bytes.slice(from, from + 4).join(".");
  const zeros = Array<number>(10).fill(0);
  if (starts(...zeros, 0xff, 0xff) || starts(...zeros, 0, 0)) return [at(12)]; // mapped; compatible
  if (starts(...zeros.slice(2), 0xff, 0xff, 0, 0)) return [at(12)]; // translated (SIIT)
  if (starts(0, 0x64, 0xff, 0x9b)) return [at(12)]; // NAT64
  if (starts(0x20, 0x02)) return [at(2)]; // 6to4
  if (!starts(0x20, 0x01, 0, 0)) return [];
  const client = bytes.slice(12, 16).map((byte) => byte ^ 0xff); // Teredo: the server and, inverted, the client
  return [at(4), client.join(".")];
}
