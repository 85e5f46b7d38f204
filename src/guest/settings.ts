import { parseArgs } from "node:util";
import type { IsolationName } from "./isolation/isolation.ts";
import { guestSilenceLimitMs } from "./protocol.ts";

/** The settings in the guest's arguments. */
export interface Settings {
  readonly root: string;
  readonly socket: string;
  readonly muxSocket: string | null;
  readonly isolation: IsolationName;
  readonly contained: boolean;
  readonly network: NetworkSetting;
  readonly egress: string | null;
  readonly toolPath: string;
  readonly readOnly: readonly string[];
  readonly silenceMs: number;
}

const networks = ["none", "allowlist", "open"] as const;
export type NetworkSetting = (typeof networks)[number];

/** Reads the arguments after the program's name. Fails naming the one that is missing or wrong. */
export function readSettings(args: readonly string[]): Settings {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      root: text,
      socket: text,
      "mux-socket": text,
      isolation: text,
      contained: { type: "boolean" },
      network: text,
      egress: text,
      "tool-path": text,
      "read-only": { type: "string", multiple: true },
      "silence-ms": text,
    },
  });
  const { root, socket, isolation, egress = null, contained = false } = values;
  const toolPath = values["tool-path"];
  const silenceMs = Number(values["silence-ms"] ?? guestSilenceLimitMs);
  if (root === undefined || socket === undefined || toolPath === undefined)
    throw new Error("--root, --socket and --tool-path are required");
  if (isolation !== "bubblewrap" && isolation !== "users" && isolation !== "sweep")
    throw new Error("--isolation must be bubblewrap, users or sweep");
  const network = networks.find((name) => name === (values.network ?? "open"));
  if (network === undefined) throw new Error(`--network must be one of ${networks.join(", ")}`);
  if (network === "allowlist" && egress === null) throw new Error("--network allowlist needs --egress");
  if (!(silenceMs > 0)) throw new Error("--silence-ms must be a number above 0");
  const muxSocket = values["mux-socket"] ?? null;
  const readOnly = values["read-only"] ?? [];
  return { root, socket, muxSocket, isolation, contained, network, egress, toolPath, readOnly, silenceMs };
}
