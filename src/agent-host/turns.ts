// Prompts an agent until its work is done.
//
// HT1. An agent that repeats itself gets one warning before it is ended.
// HT2. An agent whose last model call failed or was cut is not finished, whatever it says.
// HT4. A session that overflowed its model's window is never loaded again, because it would only
// fail again.
// HT5. If an agent ends its turn after a refusal, we prompt it once with the reason. The protocol
// has no field for it, so most agents read only that "the user" refused, and give up.
// HT6. An agent that forgets an interrupted turn gets its task again with the next prompt.
import type { AcpSession, RefusedRequest } from "./acp.ts";
import type { AgentTurn } from "./agent-fault.ts";
import { describeNoResult, listResultProblems, resultPrompt, resultReasks } from "./ask-for-result.ts";
import { type EarlierSession, forgetSession } from "./earlier-session.ts";
import type { AgentEnding } from "./ending.ts";
import type { Events } from "./events.ts";
import { readImages } from "./images.ts";
import type { Inbox } from "./inbox.ts";
import { forgetsInterrupted } from "./known-agents.ts";
import { findUnfinishedCall, type ProxyAccess, type UnfinishedCall } from "./model-proxy.ts";
import type { AgentHostRequest } from "./protocol.ts";
import { skillsSection } from "./skills.ts";
import { createTalk } from "./talk.ts";

/** How many times one attempt continues after a cut answer. */
const maxContinues = 5;

interface TurnsParts {
  readonly request: AgentHostRequest;
  readonly session: AcpSession;
  readonly events: Events;
  readonly ending: AgentEnding;
  readonly proxy: ProxyAccess | null;
  readonly inbox: Inbox;
}

/** Prompts the agent, and again while there is something to tell it; returns its last turn. */
export async function takeTurns(parts: TurnsParts): Promise<AgentTurn> {
  const { request, session, events, ending, proxy, inbox } = parts;
  const talk = createTalk({ session, events, inbox });
  let text = moved(session.earlier(), request) + firstPrompt(request);
  let images = readImages(request.cwd, request.images);
  let reasks = 0;
  let isExplained = false;
  for (let continues = 0; ; ) {
    const turn = await talk.prompt(text, images);
    const call = turn.end === "cancelled" ? null : await findUnfinishedCall(proxy);
    if (call?.overflowed === true) forgetSession(request.home);
    if (isLost(session, turn, call) && ending.why() === null) {
      events.report({
        kind: "notice",
        text: `${turn.detail}: the earlier session cannot continue: starting a new one`,
      });
      await session.renew();
      text = [firstPrompt(request), ...talk.lastNews()].join("\n\n");
      continue;
    }
    const task = forgotten(request, turn);
    if (task === "") images = []; // The session has them.
    const loop = ending.takeLoop();
    if (loop !== null && turn.end === "cancelled") {
      text = task + nudge(loop);
      events.report({ kind: "notice", text: `${loop}: we told it to try something else` });
      continue;
    }
    if (talk.hasNews() && ending.why() === null && (turn.end === "finished" || turn.end === "cancelled")) {
      text = task;
      continue;
    }
    const problems = turn.end === "finished" ? await listResultProblems(request) : null;
    if (problems !== null && problems.length === 0) return turn;
    const judged = withLastCall(turn, call);
    const refusals = session.takeRefusals();
    if (refusals.length > 0 && !isExplained && judged.end === "finished") {
      isExplained = true;
      text = explanation(refusals);
      events.report({ kind: "notice", text: "it stopped after a refused request: we told it the reason" });
      continue;
    }
    if (judged.isCut === true && continues < maxContinues) {
      continues += 1;
      text = continuation(judged.detail);
      events.report({ kind: "notice", text: `${judged.detail}: we told it to continue` });
      continue;
    }
    if (judged.end !== "finished" || problems === null) return judged;
    if (reasks === resultReasks) return { end: "no-result", detail: describeNoResult(problems) };
    reasks += 1;
    text = resultPrompt(problems, request);
  }
}

const firstPrompt = ({ prompt, cwd, skills }: AgentHostRequest): string => prompt + skillsSection(cwd, skills);

/** The task again, for an agent that forgot it when its turn was interrupted (HT6). */
const forgotten = (request: AgentHostRequest, { end }: AgentTurn): string =>
  end === "cancelled" && forgetsInterrupted(request.command)
    ? `You were interrupted. This is your task; what you have changed so far is in your tree.\n\n${firstPrompt(request)}\n\n`
    : "";

/** Tells an agent that remembers another tree where its tree is now. */
const moved = (earlier: EarlierSession | null, { cwd }: AgentHostRequest): string =>
  earlier === null || earlier.cwd === null || earlier.cwd === cwd
    ? ""
    : `You continue in another folder: your tree is now ${cwd}. The earlier one, ${earlier.cwd}, is gone.\n\n`;

/**
 * Whether the session of an earlier attempt cannot be continued: the agent fails at once although
 * its model works, or its conversation is longer than the model's window (HT4).
 */
function isLost(session: AcpSession, { end }: AgentTurn, call: UnfinishedCall | null): boolean {
  if (session.earlier() === null || (end !== "model-error" && end !== "protocol-error")) return false;
  return call === null ? !session.hasSpoken() : call.overflowed;
}

const nudge = (loop: string): string =>
  `You were interrupted because you repeat yourself: ${loop}.
Repeating it will not change the result. Think about why it does not lead further and try something else. If you wait for something, wait longer in one call. If you cannot do the task, say why and end your turn.`;

const explanation = (refusals: readonly RefusedRequest[]): string =>
  `You stopped after a request that was refused:
${refusals.map(({ title, reason }) => `- ${title}: ${reason}`).join("\n")}
Do your task without it. If your task is done, or cannot be done without it, say so and end your turn.`;

const continuation = (reason: string): string =>
  `You were interrupted: ${reason}. Continue where you stopped; do not start over. Write long files in several steps.`;

/**
 * Judges the end of a turn by the agent's last model call (HT2). What the agent says of a failure
 * is often only that its connection broke.
 */
function withLastCall(turn: AgentTurn, call: UnfinishedCall | null): AgentTurn {
  if (call === null) return turn;
  if (turn.end === "model-error") return { ...turn, detail: `${call.reason}. The agent says: ${turn.detail}` };
  if (turn.end !== "finished") return turn;
  const { ending, reason } = call;
  return { end: ending === "limit" ? "limit" : "model-error", detail: reason, isCut: ending !== "error" };
}
