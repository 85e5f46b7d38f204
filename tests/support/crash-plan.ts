// A small plan that covers everything: waves, a conflict whose task runs again, generated files, a
// retry, findings for a fixer, a rejection, a preview that dies once.
// tests/support/crash-process.ts adds what people do and what goes wrong.

const isFirst = `grep -q '"attempt": 1,' "$WAVESMITH_TASK_FILE"`;
const generate = "cat own/* > all.txt";
const own = (key: string): string => `mkdir -p own; echo ${key} > own/${key}; ${generate}`;

const tasks = [
  { id: "one", agent: "backend", run: `${own("one")}; echo one >> shared; touch bug` },
  {
    id: "two",
    agent: "frontend",
    retries: 2,
    run: `if ${isFirst}; then echo no; exit 1; fi; ${own("two")}; echo two >> shared`,
  },
  // Takes long enough to be cancelled while it runs.
  { id: "slow", agent: "database", retries: 2, run: `if ${isFirst}; then sleep 60; fi; ${own("slow")}` },
  { id: "then", agent: "backend", dependsOn: ["one"], run: own("then") },
];

// Once shown, the preview is next to the caches of its own sandbox; a gate boots it in a tree that
// is not.
const diesOnce = "if [ -d ../cache ] && mkdir ../cache/died 2> /dev/null; then exit 1; fi";
const serve = `exec node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;

export const crashPlan = {
  name: "crash",
  approval: "wave",
  limits: { tasksPerAgentPerWave: 3, maxParallelTasks: 3 },
  agents: {
    fixer: { runtime: "command", command: "if [ -e bug ]; then git rm -q -f bug; else echo because > why; fi" },
  },
  generated: [{ path: "all.txt", by: generate }],
  gates: { testing: { command: "test ! -e bug; echo 1..1; echo ok 1 - no bug" }, critic: false },
  preview: { command: `${diesOnce}; ${serve}` },
  tasks,
};

export const editedCrashPlan = {
  ...crashPlan,
  tasks: [...tasks, { id: "late", agent: "backend", dependsOn: ["then"], run: own("late") }],
};

const keys = ["late", "one", "slow", "then", "two"];

/** The tree of main once the edited plan is completed. */
export const crashPlanTree: Readonly<Record<string, string>> = {
  ...Object.fromEntries(keys.map((key) => [`own/${key}`, `${key}\n`])),
  "all.txt": keys.map((key) => `${key}\n`).join(""),
  shared: "one\ntwo\n",
  why: "because\n",
};
