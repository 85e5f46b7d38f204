// The public protocol of the agent host: our client of the Agent Client Protocol (v1). It runs
// inside the sandbox as the stage of a job, beside the agent it drives, so an attempt outlives the
// process that started it, with nothing to replay.
//
//   node agent-host.mjs                       request (JSON) in the first line of stdin, a person's
//                                             messages in later lines; events on stdout, one per line
//   node agent-host.mjs chat                  the same request in stdin's first line, then a
//                                             `ChatLine` per line
//   node agent-host.mjs greet --command C     describes the agent of a command as JSON (acp.ts)
//   node agent-host.mjs submit-result --schema F --result F    the MCP server for submitting results
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
  /** How hard the model thinks: low, medium, high or max; null: its default. */
  readonly effort: string | null;
  /** The plan's MCP servers, each with the shell command that starts it. */
  readonly mcp: readonly { readonly name: string; readonly command: string }[];
  /** Folders in the tree with a SKILL.md each. */
  readonly skills: readonly string[];
  /** Images in the tree that belong to the prompt. */
  readonly images: readonly string[];
  /** The schema for `submit_result` and the file for the result; null: the role submits nothing. */
  readonly result: { readonly schema: unknown; readonly file: string } | null;
  /** Folders that may be read besides the tree, such as the volume's root. */
  readonly readable: readonly string[];
  /** Whether the role must change nothing: edits are refused. */
  readonly readOnly: boolean;
  /**
   * Where to ask a person about what the policy does not allow: the answer is a file `<question's
   * name>.json` in the folder, awaited for `waitMs`. Null: nobody is there, and the action is
   * rejected.
   */
  readonly ask: { readonly folder: string; readonly waitMs: number } | null;
  /** The agent is ended as stalled after this long without a message. */
  readonly idleMs: number;
  /** The time between being asked to stop and being killed. */
  readonly graceMs: number;
}

/** A person's message to the agent while it works: one line of JSON on stdin. */
export interface AgentMessage {
  /** The message's name: the event that reports its delivery repeats it. */
  readonly message: number;
  /** The person. */
  readonly by: string;
  readonly text: string;
  /** Whether it interrupts the agent's turn. */
  readonly urgent: boolean;
}

/** A person's input to an agent in a chat: a prompt, or an interrupt of its turn. */
export type ChatLine = { readonly prompt: string } | { readonly cancel: true };

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
  "not-started": 20,
  "not-installed": 127,
} as const;
export type AgentEnd = keyof typeof agentEnds;

/** This many identical tool calls with the same result in a row are a loop. */
export const sameActionLimit = 4;
/** The same for calls whose results the agent does not report, because they may differ. */
export const sameUnseenLimit = 10;
/** How many times we warn an agent that is in a loop before we end it. */
export const loopNudges = 1;

export interface QuestionOption {
  readonly name: string;
  /** The protocol's kind: `allow_once`, `reject_once`, … */
  readonly kind: string;
}

/** The reason recorded when no person answered. */
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
      /** Its input in one line, when it says more than the title. */
      readonly input?: string;
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
      /** The name of the question that this decision answers; absent: nobody was asked. */
      readonly question?: string;
    }
  | {
      /** A person is asked, and may answer for `waitMs`. */
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
      /** Tokens in the model's window, and how many it holds. */
      readonly used: number;
      readonly size: number;
      /** The cost that the agent reports; the model proxy meters its own. */
      readonly usd: number | null;
    }
  | {
      /** The agent got a person's message. */
      readonly kind: "told";
      readonly message: number;
      readonly by: string;
      /** The text, shortened. */
      readonly text: string;
    }
  | { readonly kind: "notice"; readonly text: string }
  | { readonly kind: "end"; readonly end: AgentEnd; readonly detail: string };

/**
 * One line of the agent host's output: `{"wavesmith":1,…}`. Other lines were printed by the agent
 * itself.
 */
export type AgentEvent = AgentEventBody & { readonly wavesmith: 1; readonly at: string };
