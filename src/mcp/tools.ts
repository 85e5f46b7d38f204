import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { type Client, dataOf } from "../client/client.ts";
import { type McpTool, mcpTool } from "./tool.ts";

// The verbs for other agents. Each is one or two calls of the API, which checks, authorizes and
// explains them, so a verb can do no more here than its caller's key allows.

const build = z.string().min(1).max(100).describe("The build's id, such as bld_…");
const task = z.string().min(1).max(200).describe("The task's id in the plan");
const by = z.string().min(1).max(200).default("an agent over MCP").describe("Who says it; shown to people");
const pathOf = (id: string) => ({ params: { path: { id } } });

/** How long a tool may wait; clients give up after a minute. */
const maxWaitSeconds = 45;
const pollMs = 1_000;
const going: ReadonlySet<string> = new Set(["queued", "running", "cancelling"]);

async function statusOf({ api }: Client, id: string, waitSeconds: number): Promise<unknown> {
  const deadline = performance.now() + waitSeconds * 1000;
  for (;;) {
    const state = await dataOf(api.GET("/api/v1/builds/{id}", pathOf(id)));
    if (!going.has(state.status) || performance.now() + pollMs > deadline) return state;
    await delay(pollMs);
  }
}

const readTools: readonly McpTool[] = [
  mcpTool("check_plan", {
    title: "Check a plan",
    description: "Checks a plan (YAML or JSON) without running it: its faults with lines, waves and critical path.",
    effect: "reads",
    input: { plan: z.string().min(1).describe("The plan's text") },
    run: ({ api }, { plan }) =>
      dataOf(
        api.POST("/api/v1/plans/check", {
          body: plan,
          bodySerializer: (text) => text as string,
          headers: { "content-type": "application/yaml" },
        }),
      ),
  }),
  mcpTool("list_builds", {
    title: "List builds",
    description: "Lists builds, newest first, of one project or of all.",
    effect: "reads",
    input: {
      project: z.string().max(100).optional(),
      limit: z.number().int().min(1).max(50).default(10),
    },
    run: ({ api }, { project, limit }) =>
      dataOf(
        api.GET("/api/v1/builds", { params: { query: { limit, ...(project === undefined ? {} : { project }) } } }),
      ),
  }),
  mcpTool("build_status", {
    title: "Show a build",
    description:
      "Shows a build: its phase, waves, tasks, gates, findings, questions and spending. With waitSeconds it answers as soon as the build has ended or waits for a person.",
    effect: "reads",
    input: { build, waitSeconds: z.number().int().min(0).max(maxWaitSeconds).default(0) },
    run: (client, { build: id, waitSeconds }) => statusOf(client, id, waitSeconds),
  }),
  mcpTool("task_log", {
    title: "Read a task's output",
    description: "Reads the output of a task's latest attempt from an offset in bytes; nextOffset is where to go on.",
    effect: "reads",
    input: { build, task, offset: z.number().int().min(0).default(0) },
    run: ({ api }, { build: id, task: of, offset }) =>
      dataOf(
        api.GET("/api/v1/builds/{id}/tasks/{task}/logs", { params: { path: { id, task: of }, query: { offset } } }),
      ),
  }),
  mcpTool("build_diff", {
    title: "Show what changed",
    description: "Shows what a build, one of its tasks or one of its waves changed, as a unified diff.",
    effect: "reads",
    input: { build, task: task.optional(), wave: z.number().int().min(1).optional() },
    run: ({ api }, { build: id, task: of, wave }) =>
      dataOf(
        api.GET("/api/v1/builds/{id}/diff", {
          params: {
            path: { id },
            query: { ...(of === undefined ? {} : { task: of }), ...(wave === undefined ? {} : { wave }) },
          },
          parseAs: "text",
        }),
      ),
  }),
  mcpTool("build_findings", {
    title: "Show the gates and their findings",
    description: "Shows every gate run of a build with its verdict, evidence and findings.",
    effect: "reads",
    input: { build },
    run: ({ api }, { build: id }) => dataOf(api.GET("/api/v1/builds/{id}/gates", pathOf(id))),
  }),
  mcpTool("project_memory", {
    title: "Show what a project remembers",
    description: "Shows what a project remembers of its builds: what was done, people's decisions and their reasons.",
    effect: "reads",
    input: { project: z.string().min(1).max(100).describe("The project's name or id") },
    run: ({ api }, { project: id }) => dataOf(api.GET("/api/v1/projects/{id}/memory", pathOf(id))),
  }),
  mcpTool("inbox", {
    title: "List what waits for a person",
    description: "Lists the builds that wait for a decision and the questions of agents, in all projects.",
    effect: "reads",
    input: {},
    run: ({ api }) => dataOf(api.GET("/api/v1/inbox")),
  }),
];

const changeTools: readonly McpTool[] = [
  mcpTool("start_build", {
    title: "Start a build",
    description:
      "Starts a build of a plan (YAML or JSON), or of a brief from which a planner drafts a plan, and returns at once. The project is created if there is none of this name.",
    effect: "adds",
    input: {
      project: z.string().trim().min(1).max(80).describe("The project's name"),
      plan: z.string().optional().describe("The plan's text; leave it out with a brief"),
      brief: z.string().max(100_000).optional().describe("What to build, in words; leave it out with a plan"),
      requestedBy: z.string().max(200).optional().describe("The person for whom you start it"),
      idempotencyKey: z.string().max(200).optional().describe("The same key starts no second build"),
    },
    async run({ api }, { project: name, plan, brief, requestedBy, idempotencyKey }) {
      const project = await dataOf(api.POST("/api/v1/projects", { body: { name } }));
      const request = {
        ...(plan === undefined ? {} : { plan }),
        ...(brief === undefined ? {} : { brief }),
        ...(requestedBy === undefined ? {} : { requestedBy }),
      };
      const headers = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
      return dataOf(
        api.POST("/api/v1/projects/{id}/builds", { params: { path: { id: project.id } }, body: request, headers }),
      );
    },
  }),
  mcpTool("tell_task", {
    title: "Say something to a task's agent",
    description:
      "Says something to the agent of a task while it works, or to the task's next attempt. With now its turn is interrupted.",
    effect: "adds",
    input: { build, task, text: z.string().trim().min(1).max(20_000), by, now: z.boolean().default(false) },
    run: ({ api }, { build: id, task: of, ...body }) =>
      dataOf(api.POST("/api/v1/builds/{id}/tasks/{task}/messages", { params: { path: { id, task: of } }, body })),
  }),
  mcpTool("comment_on_build", {
    title: "Comment on a build's work",
    description:
      "Adds a finding about lines of a build's work. It goes to the wave's fixer, or to the next attempt of a task; an open one keeps the wave from passing.",
    effect: "adds",
    input: {
      build,
      text: z.string().trim().min(1).max(20_000),
      file: z.string().min(1).max(1_000).optional(),
      line: z.number().int().min(1).optional(),
      task: task.optional(),
      by,
    },
    run: ({ api }, { build: id, text, file, line, task: of, by: person }) =>
      dataOf(
        api.POST("/api/v1/builds/{id}/findings", {
          ...pathOf(id),
          body: {
            ...{ text, by: person },
            ...(file === undefined ? {} : { file }),
            ...(line === undefined ? {} : { line }),
            ...(of === undefined ? {} : { task: of }),
          },
        }),
      ),
  }),
  mcpTool("answer_question", {
    title: "Answer an agent's question",
    description: "Allows or denies what an agent of a build asked for. build_status lists the open questions.",
    effect: "ends",
    input: { build, question: z.number().int().min(1), answer: z.enum(["allow", "deny"]), by },
    run: ({ api }, { build: id, question: n, ...body }) =>
      dataOf(api.POST("/api/v1/builds/{id}/questions/{n}/answer", { params: { path: { id, n } }, body })),
  }),
  mcpTool("approve_wave", {
    title: "Approve the waiting wave",
    description: "Approves the wave or the drafted plan that waits. It moves main: ask your person first.",
    effect: "ends",
    input: { build, by },
    run: ({ api }, { build: id, by: person }) =>
      dataOf(api.POST("/api/v1/builds/{id}/approve", { ...pathOf(id), body: { by: person } })),
  }),
  mcpTool("reject_wave", {
    title: "Reject the waiting wave",
    description: "Rejects the wave or the drafted plan that waits. retry_build then gives the reason to the fixer.",
    effect: "ends",
    input: { build, reason: z.string().trim().min(1).max(20_000), by },
    run: ({ api }, { build: id, ...body }) => dataOf(api.POST("/api/v1/builds/{id}/reject", { ...pathOf(id), body })),
  }),
  mcpTool("retry_build", {
    title: "Retry what failed",
    description: "Starts new attempts for what failed in a build, or reopens its blocked wave.",
    effect: "adds",
    input: { build },
    run: ({ api }, { build: id }) => dataOf(api.POST("/api/v1/builds/{id}/retry", { ...pathOf(id), body: {} })),
  }),
  mcpTool("cancel_build", {
    title: "Cancel a build",
    description: "Ends a build. Work so far stays on its branches; retry_build continues it.",
    effect: "ends",
    input: { build, reason: z.string().trim().min(1).max(2_000).default("cancelled by an agent over MCP") },
    run: ({ api }, { build: id, reason }) =>
      dataOf(api.POST("/api/v1/builds/{id}/cancel", { ...pathOf(id), body: { reason } })),
  }),
];

/** Every tool, those that change nothing first. */
export const mcpTools: readonly McpTool[] = [...readTools, ...changeTools];
