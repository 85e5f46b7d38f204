import type { Ports } from "../port.ts";
import type { GateRunRef } from "./gate-run.ts";
import { settleGate } from "./settle-gate.ts";

/** Settles a gate run as lost to infrastructure. */
export const loseGate = (ports: Ports, gateRunRef: GateRunRef, reason: string): Promise<void> =>
  settleGate(ports, gateRunRef, { kind: "lost", reason });
