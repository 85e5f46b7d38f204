import { activitiesIn, agentEndOf, agentText, lastActionIn, questionsIn, toldIn } from "./agent-output.ts";
import { lastMessage, parseResult } from "./agent-result.ts";
import { agentStage, sessionStage } from "./agent-stage.ts";
import { checksPack, fixPack, planPack, reviewPack, secondLookPack, taskPack } from "./context-pack.ts";
import type { Agents } from "./port.ts";
import { loadPrompts } from "./prompt.ts";

/** Creates context packs and agent stages; reads its prompts once, here. */
export function createAgents(): Agents {
  const prompts = loadPrompts();
  return {
    taskPack: (context) => taskPack(prompts, context),
    planPack: (context) => planPack(prompts, context),
    fixPack: (context) => fixPack(prompts, context),
    reviewPack: (context) => reviewPack(prompts, context),
    secondLookPack: (context) => secondLookPack(prompts, context),
    checksPack: (context) => checksPack(prompts, context),
    agentStage,
    sessionStage,
    chatLine: (said) => `${JSON.stringify(said)}\n`,
    endOf: agentEndOf,
    lastMessage,
    lastActionIn,
    activitiesIn,
    questionsIn,
    toldIn,
    readable: agentText,
    parseResult,
  };
}
