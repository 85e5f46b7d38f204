import type { AgentHostRequest } from "./protocol.ts";

/** How many times we ask an agent again for its result if it ended without a valid one. */
export const resultReasks = 2;

/** Lists what is wrong with the result, one entry if it is missing; null if the role has none. */
export async function listResultProblems({ result }: AgentHostRequest): Promise<readonly string[] | null> {
  if (result === null) return null;
  const { checkResultFile } = await import("./submit-result.ts");
  return checkResultFile(result.schema, result.file).problems ?? [missing];
}

const missing = "there is no result";

/** Returns the prompt that asks the agent for its result again. */
export const resultPrompt = (problems: readonly string[], { result }: AgentHostRequest): string =>
  `${complaint(problems)}\nCall the tool submit_result now, with a result that matches its schema; if you do not have the tool, write the JSON to ${result?.file}.`;

const complaint = (problems: readonly string[]): string =>
  problems[0] === missing ? "You have not submitted your result." : `Your result is not valid:\n${problems.join("\n")}`;

/** Describes a missing result for people; the agent gets another text. */
export function describeNoResult(problems: readonly string[]): string {
  const asked = `although we asked again ${resultReasks} times`;
  return problems[0] === missing
    ? `it submitted no result, ${asked}`
    : `its result is not valid, ${asked}:\n${problems.join("\n")}`;
}
