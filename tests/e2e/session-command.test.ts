import { afterAll, beforeAll, expect, it } from "vitest";
import { type AgentPlace, openAgentPlace, stepsOf, wordsOf } from "../support/agent-place.ts";
import { requires } from "../support/require.ts";

// `shell --session`: a person talks to an agent in its own session.

let place: AgentPlace;
beforeAll(async () => {
  if (requires("bubblewrap")) place = await openAgentPlace("builtin", "local");
});
afterAll(() => place?.close());

it.runIf(requires("bubblewrap"))(
  "a person continues the session of a failed attempt, its retry knows of it, and then it is gone",
  { timeout: 180_000 },
  async () => {
    place.model = () => ({ text: "I cannot" });
    expect(await place.endOf(place.command.start("build", place.plan([{ id: "api" }]), "--json"))).toMatchObject({
      status: "failed",
    });

    place.model = ({ body }) => ({ text: `now ${body.messages.length} messages` });
    const talk = place.command.start("shell", "--session");
    await talk.said("continues its session");
    talk.child.stdin!.write("use the other library\n");
    await talk.said("now 3 messages");
    talk.child.stdin!.end("and hurry\n");
    expect(await talk.ended).toBe(0);
    expect(talk.text()).toContain("now 5 messages");
    const [spending] = await place.store.buildSpending.list({});
    expect(spending).toMatchObject({ spentTokens: 45, reservedTokens: 0 });

    place.model = stepsOf([wordsOf("builtin").run("echo done > done.txt")]);
    expect((await place.command.run("retry")).code).toBe(0);
    expect(JSON.stringify(place.providers.requests.at(-1)?.body)).toContain("use the other library");
    const late = await place.command.run("shell", "--session", "--task", "api");
    expect([late.code, late.text]).toEqual([2, expect.stringContaining("was removed when the task succeeded")]);
    expect((await place.command.run("shell", "--session")).text).toContain("was removed when the task succeeded");
  },
);
