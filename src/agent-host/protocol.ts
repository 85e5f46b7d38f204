// The agent host's public face. It is our client of the Agent Client Protocol (v1) and runs inside
// the sandbox, as the stage of a job, beside the agent it drives: an attempt outlives whoever
// started it, with nothing to replay.
//
//   node agent-host.mjs                                        request (JSON) on stdin, events on stdout, one a line
//   node agent-host.mjs greet --command C                      says who answers to a command, as JSON (`About` in acp.ts)
//   node agent-host.mjs submit-result --schema F --result F    the MCP server (stdio) by which an agent hands in its result
//
// Its exit code says how the agent ended. `finished` is never success: exit codes of checks,
// schemas and git decide (W5).

export interface AgentHostRequest {
  /** A shell command line that starts an ACP agent on stdin and stdout. */
  readonly command: string;
  readonly prompt: string;
  /** The tree: absolute, inside the sandbox. */
  readonly cwd: string;
  /**
   * The agent's own configuration and sessions: absolute, outside the tree, kept between the
   * attempts of a task.
   */
  readonly home: string;
  /** The agent's own name for a model; null: its default. */
  readonly model: string | null;
  /** What `submit_result` takes; null: the role hands nothing in. */
  readonly result: { readonly schema: unknown; readonly file: string } | null;
  /** Where reading is allowed besides the tree, such as the volume's root. */
  readonly readable: readonly string[];
  /** A role that must change nothing: edits are refused. */
  readonly readOnly: boolean;
  /**
   * Whom to ask for what the policy does not allow: answers are put into the folder as `<question's
   * name>.json`, each waited for so long. Null: nobody is there, and it is rejected.
   */
  readonly ask: { readonly folder: string; readonly waitMs: number } | null;
  /** Ended as stalled after so long without a word from the agent. */
  readonly idleMs: number;
  /** Between being asked to stop and being killed. */
  readonly graceMs: number;
}

/** How an agent ended, and the exit code that says so. */
export const agentEnds = {
  finished: 0,
  refused: 10,
  cancelled: 11,
  limit: 12,
  crashed: 13,
  "protocol-error": 14,
  "model-error": 15,
  stalled: 16,
  "no-result": 17,
  "not-signed-in": 18,
  "over-budget": 19,
  "not-installed": 127,
} as const;
export type AgentEnd = keyof typeof agentEnds;

/** How often an agent that ended without a valid result is asked for it again. */
export const resultReasks = 2;

/** The same tool call with the same input so often in a row is a loop. */
export const sameActionLimit = 4;

export interface QuestionOption {
  readonly name: string;
  /** As the protocol has it: `allow_once`, `reject_once`, … */
  readonly kind: string;
}

/** What the answer is when no person gave one. */
export const questionEnds = {
  unanswered: "nobody answered in time",
  ended: "it was ended before anybody answered",
} as const;

export type AgentEventBody =
  | { readonly kind: "session"; readonly agent: string; readonly resumed: boolean; readonly model: string | null }
  | { readonly kind: "message" | "thought"; readonly text: string }
  | { readonly kind: "plan"; readonly entries: readonly { readonly text: string; readonly status: string }[] }
  | {
      readonly kind: "tool";
      readonly id: string;
      readonly title: string;
      /** read, edit, delete, move, search, execute, think, fetch, other */
      readonly action: string;
      readonly status: string;
      readonly paths: readonly string[];
    }
  | { readonly kind: "diff"; readonly path: string; readonly added: number; readonly removed: number }
  | {
      readonly kind: "permission";
      readonly title: string;
      readonly action: string;
      readonly allowed: boolean;
      readonly reason: string;
      /** The name of the question that this is the end of; absent: nobody was asked. */
      readonly question?: string;
    }
  | {
      /** A person is asked, for so long. */
      readonly kind: "question";
      readonly name: string;
      readonly title: string;
      readonly action: string;
      readonly reason: string;
      readonly options: readonly QuestionOption[];
      readonly waitMs: number;
    }
  | {
      readonly kind: "usage";
      /** Tokens in the model's window, and how many fit. */
      readonly used: number;
      readonly size: number;
      /** What the agent says it cost; ours is metered at the model proxy. */
      readonly usd: number | null;
    }
  | { readonly kind: "notice"; readonly text: string }
  | { readonly kind: "end"; readonly end: AgentEnd; readonly detail: string };

/**
 * One line of the agent host's output: `{"wavesmith":1,…}`. Lines that are none are what the agent
 * itself printed.
 */
export type AgentEvent = AgentEventBody & { readonly wavesmith: 1; readonly at: string };
