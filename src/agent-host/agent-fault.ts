import type { AgentEnd } from "./protocol.ts";

/** How a prompt's turn ended. */
export interface AgentTurn {
  readonly end: AgentEnd;
  readonly detail: string;
  /** Whether the model's answer was cut, so that another prompt can continue the work. */
  readonly isCut?: boolean;
}

/** A failure of the agent, as the end of a turn. */
export class AgentFault extends Error {
  readonly turn: AgentTurn;
  constructor(turn: AgentTurn) {
    super(turn.detail);
    this.turn = turn;
  }
}
