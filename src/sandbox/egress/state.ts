import { createHash } from "node:crypto";
import type { NetworkPolicy } from "../../domain/sandbox/network.ts";

// The names of the files in the state folder of one sandbox's proxy.

/** Shown in the sandbox, read-only; everything beside it is hidden there. */
export const folderName = "folder";
export const proxyName = "proxy.sock";
export const modelName = "model.sock";
export const aliveName = "alive.sock";
export const policyName = "policy.json";
export const decisionsName = "decisions.jsonl";
export const egressRecordName = "record.json";
export const outputName = "egress.log";

export interface PolicyFile {
  readonly policy: NetworkPolicy;
  readonly hash: string;
}

export const hashOf = (policy: NetworkPolicy): string =>
  createHash("sha256").update(JSON.stringify(policy)).digest("hex").slice(0, 16);
