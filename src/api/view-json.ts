import type { BuildView } from "../coordinator/build/build-view.ts";

// A build with everything that is shown of it, for a command line that talks to a server. The
// server writes it and the same release reads it; programs use `GET /builds/{id}`.

type Row = object;

const buildKeys = [
  ...["id", "projectId", "requestedBy", "metadata", "interactive", "status", "plan", "brief", "sandboxDriver"],
  ...["network", "baseSha", "headSha", "epoch", "reason", "createdAt", "startedAt", "deadlineAt", "movedAt", "endedAt"],
];
const taskKeys = [
  ...["key", "agent", "definition", "status", "attempts", "retriesUsed", "conflicts", "reason", "endedAt"],
  "waveNumber",
];
const waveKeys = [
  ...["id", "number", "status", "baseSha", "headSha", "fixRounds", "epoch", "reason", "createdAt", "endedAt"],
  "taskKeys",
];
const attemptKeys = [
  ...["id", "kind", "role", "number", "status", "outcome", "reason", "outputTail", "ref", "commitSha", "jobKey"],
  ...["createdAt", "startedAt", "endedAt", "lastAction", "taskKey", "inSetup", "changed"],
];
const gateKeys = [
  ...["id", "gate", "round", "sha", "status", "verdict", "reason", "evidence", "jobKey", "createdAt", "endedAt"],
  "findings",
];
const questionKeys = [
  ...["id", "attemptId", "role", "text", "reason", "options", "askedAt", "deadlineAt", "answer", "answeredBy"],
  ...["answeredAt", "closedAt"],
];

const pullRequestKeys = [
  ...["key", "forge", "repo", "branch", "base", "waveNumber", "sha", "number", "url", "status", "mergeState"],
  ...["checks", "commits", "mergeSha", "problem", "remedy", "tries", "nextAt"],
];

const picked = (row: Row, keys: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(row).filter(([key]) => keys.includes(key)));

/** Returns a view as a value that JSON can carry. */
export function viewJson(view: BuildView): Record<string, unknown> {
  return {
    ...view,
    build: picked(view.build, buildKeys),
    tasks: view.tasks.map((task) => picked(task, taskKeys)),
    waves: view.waves.map((wave) => ({
      ...picked(wave, waveKeys),
      attempts: wave.attempts.map((attempt) => picked(attempt, attemptKeys)),
      gates: wave.gates.map((gate) => picked(gate, gateKeys)),
    })),
    ...(view.pullRequests === undefined
      ? {}
      : { pullRequests: view.pullRequests.map((request) => picked(request, pullRequestKeys)) }),
    questions: view.questions.map((question) => picked(question, questionKeys)),
    spending: [...view.spending],
  };
}

interface SentView {
  readonly build: Row;
  readonly tasks: readonly Row[];
  readonly waves: readonly { readonly attempts: readonly Row[]; readonly gates: readonly Row[] }[];
  readonly pullRequests?: readonly Row[];
  readonly questions: readonly Row[];
  readonly messages: readonly Row[];
  readonly comments: readonly Row[];
  readonly spending: readonly [string, unknown][];
}

/** Reads what `viewJson` wrote. */
export function viewFromJson(json: Record<string, unknown>): BuildView {
  const sent = json as unknown as SentView;
  return {
    ...sent,
    build: withDates(sent.build),
    tasks: sent.tasks.map(withDates),
    waves: sent.waves.map((wave) => ({
      ...withDates(wave),
      attempts: wave.attempts.map(withDates),
      gates: wave.gates.map(withDates),
    })),
    ...(sent.pullRequests === undefined ? {} : { pullRequests: sent.pullRequests.map(withDates) }),
    questions: sent.questions.map(withDates),
    messages: sent.messages.map(withDates),
    comments: sent.comments.map(withDates),
    spending: new Map(sent.spending),
  } as unknown as BuildView;
}

/** The columns of a row that end with `At` are dates; nested values stay. */
const withDates = (row: Row): Row =>
  Object.fromEntries(
    Object.entries(row).map(([key, value]) => [
      key,
      key.endsWith("At") && typeof value === "string" ? new Date(value) : value,
    ]),
  );
