import { beforeEach, describe, expect, it } from "vitest";
import { statusJson } from "../../src/api/build-status.ts";
import { tellTask } from "../../src/coordinator/attempt/messages.ts";
import { createBuildReader } from "../../src/coordinator/build/read-build.ts";
import type { ProjectId } from "../../src/domain/ids.ts";
import { agentBuilds, scripted } from "../support/agent-builds.ts";

// A person talks to the agents of a running build.

const world = agentBuilds();
const go = "../../../cache/go";
const command = (check: string) => ({
  runtime: "command",
  command: `cat > prompt.txt; while [ ! -e ${go} ]; do sleep 0.05; done; ${check}`,
});
const plan = (tasks: object[]) => ({
  name: "told",
  source: { path: "seed" },
  gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
  network: "none",
  agents: { backend: scripted, infrastructure: command("grep -q 'Make it blue' prompt.txt") },
  tasks: tasks.map((task) => ({ agent: "backend", retries: 0, ...task })),
});
const untilGo = `while [ ! -e ${go} ]; do sleep 0.05; done`;

describe("what a person says to a task's agent", () => {
  beforeEach(() => world.open());

  const store = () => world.fixture.app.store;
  const start = async (...tasks: object[]) => {
    const buildId = await world.fixture.request(plan(tasks), { planFolder: world.folder });
    await world.fixture.until(
      buildId,
      async () => (await store().attempts.find({ buildId, status: "running" })) !== null,
    );
    return buildId;
  };
  /**
   * Waits until its agent is in its first turn; earlier messages are part of that turn's prompt.
   */
  const startTurn = async (task: object) => {
    const buildId = await start(task);
    const { jobKey } = await store().attempts.get({ buildId });
    await world.fixture.until(buildId, async () =>
      (await store().logChunks.list({ jobKey })).some(({ text }) => text.includes("at work")),
    );
    return buildId;
  };
  const tell = (buildId: string, text: string, { task = "api", urgent = false } = {}) =>
    tellTask(world.fixture.app.ports, buildId, task, { text, by: "ada", urgent });
  const letGo = async () => {
    const { ports, config } = world.fixture.app;
    const endpoint = await ports.driver(config.sandboxDriver).find(world.fixture.projectId as ProjectId);
    await endpoint!.guest.writeFile("cache/go", "");
  };
  const messages = (buildId: string) => store().messages.list({ buildId }, { by: "id" });
  const told = () => world.fixture.git("show", "main:told.txt");

  it("is passed on once, however often a forge reports the comment, even after a crash", async () => {
    const buildId = await startTurn({ id: "api", instructions: `say at work\nrun ${untilGo}` });
    const { ports } = world.fixture.app;
    const said = { text: "run echo yes >> told.txt", by: "ada", urgent: false, origin: "github:octo/app:comment:1" };
    const first = await tellTask(ports, buildId, "api", said);
    expect(await tellTask(ports, buildId, "api", said)).toMatchObject({
      way: "now",
      message: { id: first.message.id },
    });
    await letGo();
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await tellTask(ports, buildId, "api", said)).toMatchObject({ message: { id: first.message.id } });
    expect(await told()).toBe("yes\n");
    expect(await messages(buildId)).toHaveLength(1);
  });

  it("becomes the agent's next prompt after its turn, is recorded, and is shown", async () => {
    const buildId = await startTurn({ id: "api", instructions: `say at work\nrun ${untilGo}` });
    expect(await tell(buildId, "run echo yes >> told.txt")).toMatchObject({ way: "now" });
    await letGo();
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect(await told()).toBe("yes\n");
    const [attempt] = await store().attempts.list({ buildId });
    expect(attempt?.outputTail).toContain("[told by ada: run echo yes >> told.txt]");
    expect(await messages(buildId)).toMatchObject([{ attemptId: attempt!.id, deliveredAt: expect.any(Date) }]);
    const view = await createBuildReader(store(), buildId).read();
    const shown = statusJson(view, { interrupted: false, repository: "", now: new Date() });
    expect(shown).toMatchObject({ tasks: [{ messages: [{ by: "ada", state: "delivered", attempt: 1 }] }] });
    const events = await store().outbox.list({ buildId, name: "agent/task.told" });
    expect(events).toMatchObject([{ data: { taskKey: "api", by: "ada", text: "run echo yes >> told.txt" } }]);
    await expect(tell(buildId, "too late")).rejects.toMatchObject({
      code: "conflict",
      remedy: "put it into the plan of the project's next build",
    });
    await expect(tell(buildId, "who?", { task: "web" })).rejects.toMatchObject({ code: "not-found" });
  });

  it("interrupts its turn when it is urgent", async () => {
    const buildId = await startTurn({ id: "api", instructions: "say at work\nhang" });
    await tell(buildId, "write told.txt yes", { urgent: true });
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect(await told()).toBe("yes");
  });

  it("reaches the agent once, through the job's watcher if the first process could not deliver it", async () => {
    const buildId = await startTurn({ id: "api", instructions: "say at work\nhang" });
    const attempt = await store().attempts.get({ buildId });
    const { taskId, id: attemptId } = attempt;
    await store().messages.insert({
      ...{ buildId, taskId: taskId!, attemptId, number: 1, by: "ada", urgent: true },
      text: "run echo yes >> told.txt",
    });
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect(await told()).toBe("yes\n");
  });

  it("becomes part of the next attempt's prompt if the agent takes no messages while it works", async () => {
    const buildId = await start({ id: "api", agent: "infrastructure", instructions: "Do it.", retries: 1 });
    expect(await tell(buildId, "Make it blue.")).toMatchObject({ way: "next-attempt" });
    await letGo();
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    const [, second] = await store().attempts.list({ buildId }, { by: "number" });
    expect(await messages(buildId)).toMatchObject([{ attemptId: second!.id, deliveredAt: expect.any(Date) }]);
    expect(await world.fixture.git("show", "main:prompt.txt")).toContain("### ada said\n\nMake it blue.");
  });

  it("is refused for a script", async () => {
    const buildId = await start({ id: "api", agent: "database", run: untilGo, changes: "optional" });
    await expect(tell(buildId, "hello")).rejects.toMatchObject({ code: "unsupported" });
    await letGo();
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
  });
});
