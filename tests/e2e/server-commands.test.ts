import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { serveAt, timeless } from "../support/server-place.ts";

const noGates = { gates: { testing: false, critic: false, integration: false } };

let place: CommandPlace;
afterEach(() => place.close());

it("works on a server with the output of a data directory", { timeout: 300_000 }, async () => {
  place = createCommandPlace();
  const { onServer, stop } = await serveAt(place);
  const here = (...words: string[]) => place.run(...words);
  mkdirSync(join(place.folder, "seed"));
  writeFileSync(join(place.folder, "seed", "seed.txt"), "from the folder of the plan\n");
  const plan = place.plan(
    "shop",
    [
      { id: "one", run: "cat seed.txt; echo one > one.txt" },
      { id: "two", run: "echo two > two.txt", dependsOn: ["one"] },
    ],
    { source: { path: "./seed" }, approval: "final", ...noGates },
  );
  const built = await onServer("build", plan, "--json");
  expect(built.code, built.text).toBe(5);
  const lines = built.text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
  expect(lines[0].type).toBe("build.started");
  expect(lines.map(({ type }) => type)).toContain("project/approval.requested");
  expect(lines.at(-1)).toMatchObject({ type: "build.finished", status: "waiting" });
  const id = lines[0].buildId as string;

  for (const words of [
    ["status", id],
    ["status", "--json"],
    ["builds"],
    ["builds", "--json"],
    ["logs", id],
    ["logs", id, "--task", "one", "--json"],
    ["diff", id, "--wave", "1"],
    ["diff", "--stat", "--task", "two"],
    ["diff", "--json"],
    ["diff", "--task", "nobody"],
    ["attach", id, "--json"],
  ]) {
    const [there, local] = [await onServer(...words), await here(...words)];
    expect(timeless(there.text), words.join(" ")).toBe(timeless(local.text));
    expect(there.code, words.join(" ")).toBe(local.code);
  }
  expect((await onServer("logs", id)).text).toContain("from the folder of the plan");

  expect(await onServer("reject", id, "--reason", "more of it")).toMatchObject({ code: 0 });
  const retried = await onServer("retry", id, "--unchanged");
  expect(retried.code, retried.text).toBe(5);
  const approved = await onServer("approve", id, "--resume");
  expect(approved.code, approved.text).toBe(0);
  expect(approved.text).toContain(`build ${id} completed: 2 waves passed`);
  const back = await onServer("rollback", id, "--wave", "1");
  expect(back.text).toContain(`build ${id} is back at wave 1`);
  expect((await onServer("rollback", id, "--undo")).text).toContain(`build ${id} is completed again`);

  const slow = place.plan("slow", [{ id: "sleep", run: "echo begun; sleep 600" }], noGates);
  const running = onServer("build", slow);
  const begun = async () => (await onServer("logs", "--project", "slow")).text.includes("begun");
  await expect.poll(begun, { timeout: 60_000 }).toBe(true);
  const cancelled = await onServer("cancel", "--project", "slow", "--json");
  expect(JSON.parse(cancelled.text)).toMatchObject({ status: "cancelled" });
  expect((await running).code).toBe(3);
  await stop();
});

it("manages a server as it manages a data directory", { timeout: 300_000 }, async () => {
  place = createCommandPlace();
  const { onServer, withInput, stop } = await serveAt(place);
  const here = (...words: string[]) => place.run(...words);
  const same = async (...words: string[]) => {
    const [there, local] = [await onServer(...words), await here(...words)];
    expect(timeless(there.text), words.join(" ")).toBe(timeless(local.text));
    expect(there.code, words.join(" ")).toBe(local.code);
    return local;
  };
  const plan = place.plan("shop", [{ id: "one", run: "echo one > one.txt" }], noGates);
  expect(await onServer("build", plan)).toMatchObject({ code: 0 });

  expect((await same("plan", plan)).code).toBe(0);
  for (const words of [["gc"], ["gc", "--dry-run"], ["notifications"], ["schedules"], ["sandbox", "ls"]]) {
    await same(...words);
    await same(...words, "--json");
  }
  await same("notifications", "replay");
  await same("notifications", "replay", "ntf_nobody");

  expect(await withInput("Use UTC.\n", "memory", "set", "-")).toMatchObject({ code: 0 });
  expect((await same("memory")).text).toContain("Use UTC.");
  await same("memory", "--json");
  await same("memory", "--project", "nobody");
  await same("memory", "forget");

  const made = JSON.parse((await onServer("keys", "create", "ci", "--expires", "12h", "--json")).text.split("\n")[0]!);
  expect(made).toMatchObject({ name: "ci", scope: "build", tenant: "default", key: expect.stringMatching(/^wsk_/) });
  expect((await onServer("keys", "create", "ada", "--tenant", "acme")).text).toContain("tenant acme");
  expect((await same("keys", "list")).text).toContain(made.id);
  expect((await same("keys", "list", "--tenant", "acme", "--json")).text).toContain('"name":"ada"');
  expect((await onServer("keys", "revoke", made.id)).text).toBe(`revoked ${made.id} (ci)\n`);
  expect((await same("audit")).text).toContain("DELETE /keys/{id}");
  await same("audit", "--json");
  await same("tenants");

  writeFileSync(
    join(place.folder, "wavesmith.yaml"),
    `on: { schedule: [{ name: nightly, cron: "0 3 * * *" }] }\nplan: ./shop.json\n`,
  );
  const added = await onServer("schedules", "add", "--json");
  const { id } = JSON.parse(added.text).schedules[0] as { id: string };
  expect((await onServer("schedules", "pause", id)).text).toContain("paused");
  expect((await same("schedules")).text).toContain("nightly");
  expect((await onServer("schedules", "remove", id)).code).toBe(0);
  expect((await same("schedules")).text).toContain("no schedules");
  await stop();
});

it("manages the sandboxes of a server", { timeout: 300_000 }, async () => {
  place = createCommandPlace();
  const { onServer, stop } = await serveAt(place);
  const here = (...words: string[]) => place.run(...words);
  const same = async (...words: string[]) => {
    const [there, local] = [await onServer(...words), await here(...words)];
    expect(timeless(there.text), words.join(" ")).toBe(timeless(local.text));
    expect(there.code, words.join(" ")).toBe(local.code);
    return local.text;
  };
  const plan = place.plan("shop", [{ id: "one", run: "echo one > one.txt" }], noGates);
  expect(await onServer("build", plan)).toMatchObject({ code: 0 });
  expect(await same("sandbox", "start", "shop")).toContain("the sandbox of shop runs");
  expect(await same("sandbox", "stop", "shop")).toContain("is stopped");
  await same("sandbox", "stop", "shop", "--json");
  const taken = await onServer("sandbox", "snapshot", "shop", "--json");
  const { snapshot } = JSON.parse(taken.text) as { snapshot: { id: string; project: string } };
  expect(snapshot.project).toBe("shop");
  expect(await same("sandbox", "snapshot", "--list")).toContain(snapshot.id);
  await same("sandbox", "snapshot", "shop", "--list", "--json");
  await same("sandbox", "snapshot", "shop", "--format", "rar");
  expect(await same("sandbox", "restore", "shop")).toContain(snapshot.id);
  await same("sandbox", "restore", "shop", "snap_nobody");
  expect((await onServer("sandbox", "rm", "shop")).text).toContain("and its volume kept");
  expect(await same("sandbox", "ls")).toContain("volume kept");
  expect(await same("sandbox", "stop", "shop")).toContain("only its volume is kept");
  await same("sandbox", "start", "nobody", "--json");
  await stop();
});
