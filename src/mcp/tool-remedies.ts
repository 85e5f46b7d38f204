// Errors of the API name commands and routes, which an agent that has only tools cannot use.

/** The tool that does what a command does. */
const toolOf: Readonly<Record<string, string>> = {
  plan: "check_plan",
  build: "start_build",
  builds: "list_builds",
  status: "build_status",
  attach: "build_status",
  logs: "task_log",
  diff: "build_diff",
  approve: "approve_wave",
  reject: "reject_wave",
  answer: "answer_question",
  retry: "retry_build",
  cancel: "cancel_build",
  tell: "tell_task",
  comment: "comment_on_build",
  memory: "project_memory",
};

const routes: readonly (readonly [RegExp, string])[] = [
  [/POST \/api\/v1\/plans\/check checks/g, "check_plan checks"],
  [/GET \/api\/v1\/builds lists them/g, "list_builds lists them"],
  [/POST \/api\/v1\/projects creates one/g, "start_build creates one"],
  [/^see \/docs$/g, "see the tool's description"],
];

/** A command with what it is given: a build, a question's number and options. */
const command = /`?\bwavesmith ([a-z]+)((?: (?:bld_\w+|\d+|--[a-z-]+(?: (?:"[^"]*"|[\w.-]+))?))*)`?/g;

/** Rewrites the commands and routes in a message as the tools that do the same. */
export function namingTools(text: string): string {
  const named = text.replace(command, (found, verb: string, rest: string) => {
    const tool = toolOf[verb];
    if (tool === undefined) return `${found.startsWith("`") ? found : `\`${found}\``} (ask your person to run it)`;
    const args = argumentsIn(verb, rest);
    return args === "" ? tool : `${tool} (${args})`;
  });
  return routes.reduce((shown, [route, tool]) => shown.replace(route, tool), named);
}

/** The arguments of a tool for the words of a command, such as `build bld_x, wave 2`. */
function argumentsIn(verb: string, rest: string): string {
  const build = /\bbld_\w+/.exec(rest)?.[0];
  const question = verb === "answer" ? / (\d+)\b/.exec(rest)?.[1] : undefined;
  const decision = verb === "answer" ? / --(allow|deny)\b/.exec(rest)?.[1] : undefined;
  const options = [...rest.matchAll(/ --(task|wave|reason) ("[^"]*"|[\w.-]+)/g)].map(
    ([, name, value]) => `${name} ${value}`,
  );
  return [
    ...(build === undefined ? [] : [`build ${build}`]),
    ...(question === undefined ? [] : [`question ${question}`]),
    ...(decision === undefined ? [] : [`answer ${decision}`]),
    ...options,
  ].join(", ");
}
