// Prompts an agent until its work is done.
//
// HT1. An agent that repeats itself is told so once before it is ended.
// HT2. An agent whose last model call failed or was cut is not finished, whatever it says.
import type { AcpSession } from "./acp.ts";
import type { AgentTurn } from "./agent-fault.ts";
import type { AgentEnding } from "./ending.ts";
import type { Events } from "./events.ts";
import { readImages } from "./images.ts";
import type { Inbox } from "./inbox.ts";
import { findUnfinishedCall, type ProxyAccess } from "./model-proxy.ts";
import { type AgentHostRequest, resultReasks } from "./protocol.ts";
import { skillsSection } from "./skills.ts";
import { createTalk } from "./talk.ts";

/** How many cut answers of one attempt are continued. */
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
export async function takeTurns({ request, session, events, ending, proxy, inbox }: TurnsParts): Promise<AgentTurn> {
  const talk = createTalk({ session, events, inbox });
  let text = request.prompt + skillsSection(request.cwd, request.skills);
  let images = readImages(request.cwd, request.images);
  let reasks = 0;
  for (let continues = 0; ; ) {
    const turn = await talk.prompt(text, images);
    images = []; // The session has them.
    const loop = ending.takeLoop();
    if (loop !== null && turn.end === "cancelled") {
      text = nudge(loop);
      events.report({ kind: "notice", text: `${loop}: told to do something else` });
      continue;
    }
    if (talk.hasNews() && ending.why() === null && (turn.end === "finished" || turn.end === "cancelled")) {
      text = "";
      continue;
    }
    const problems = turn.end === "finished" ? await resultProblems(request) : null;
    if (problems !== null && problems.length === 0) return turn;
    const judged = await withLastCall(turn, proxy);
    if (judged.isCut === true && continues < maxContinues) {
      continues += 1;
      text = continuation(judged.detail);
      events.report({ kind: "notice", text: `${judged.detail}: told to continue` });
      continue;
    }
    if (judged.end !== "finished" || problems === null) return judged;
    if (reasks === resultReasks) return { end: "no-result", detail: withoutResult(problems) };
    reasks += 1;
    text = `${complaint(problems)}\nCall the tool submit_result now, with a result of its schema; without that tool, write the JSON to ${request.result?.file}.`;
  }
}

const nudge = (loop: string): string =>
  `You were interrupted because you repeat yourself: ${loop}.
Repeating it will not change the result. Think about why it does not lead further and try something else. If you wait for something, wait longer in one call. If you cannot do the task, say why and end your turn.`;

const continuation = (reason: string): string =>
  `You were interrupted: ${reason}. Continue where you stopped, and do not begin again. Write long files in several steps.`;

/** Judges the end of a turn by the agent's last model call (HT2). */
async function withLastCall(turn: AgentTurn, proxy: ProxyAccess | null): Promise<AgentTurn> {
  if (turn.end !== "finished") return turn;
  const call = await findUnfinishedCall(proxy);
  if (call === null) return turn;
  const { ending, reason } = call;
  return { end: ending === "limit" ? "limit" : "model-error", detail: reason, isCut: ending !== "error" };
}

/** Lists what is wrong with the result, one entry if it is missing; null if the role has none. */
async function resultProblems({ result }: AgentHostRequest): Promise<readonly string[] | null> {
  if (result === null) return null;
  const { checkResultFile } = await import("./submit-result.ts");
  return checkResultFile(result.schema, result.file).problems ?? [missing];
}

const missing = "there is no result";

const complaint = (problems: readonly string[]): string =>
  problems[0] === missing ? "You have not submitted your result." : `Your result is not valid:\n${problems.join("\n")}`;

/** Describes a missing result for people; the agent gets another text. */
function withoutResult(problems: readonly string[]): string {
  const asked = `and was asked for it ${resultReasks} times more`;
  return problems[0] === missing
    ? `it handed in nothing, ${asked}`
    : `what it handed in is not valid, ${asked}:\n${problems.join("\n")}`;
}
