import type { AgentEnd } from "./protocol.ts";

/** How a prompt's turn ended. */
export interface Turn {
  readonly end: AgentEnd;
  readonly detail: string;
}

/** What an agent did wrong, as an end. */
export class AgentFault extends Error {
  readonly turn: Turn;
  constructor(turn: Turn) {
    super(turn.detail);
    this.turn = turn;
  }
}
