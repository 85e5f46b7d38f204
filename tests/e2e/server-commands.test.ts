import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { requires } from "../support/require.ts";
import { serveAt, timeless } from "../support/server-place.ts";

const noGates = { gates: { testing: false, critic: false, integration: false } };

let place: CommandPlace;
afterEach(() => place.close());

it("works on a server with the output of a data directory", { timeout: 600_000 }, async () => {
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
  const status = (await onServer("status", id)).text;
  expect(status).toContain(`put it on a branch: wavesmith deliver ${id}`);
  expect(status).not.toContain("git fetch");
  const git = (...words: string[]) => execFileSync("git", ["-C", place.folder, ...words], { encoding: "utf8" });
  git("init", "-q");
  expect((await onServer("deliver", id)).text).toContain("branch wavesmith/shop");
  expect(git("show", "wavesmith/shop:two.txt")).toBe("two\n");
  expect((await onServer("deliver", id)).text).toContain("is there already");

  // Without a source it would start from the repository in this folder.
  const slow = place.plan("slow", [{ id: "sleep", run: "echo begun; sleep 600" }], {
    source: { path: "./seed" },
    ...noGates,
  });
  const running = onServer("build", slow);
  const begun = async () => (await onServer("logs", "--project", "slow")).text.includes("begun");
  await expect.poll(begun, { timeout: 60_000 }).toBe(true);
  const cancelled = await onServer("cancel", "--project", "slow", "--json");
  expect(JSON.parse(cancelled.text)).toMatchObject({ status: "cancelled" });
  expect((await running).code).toBe(3);
  await stop();
});

it.runIf(requires("terminal"))(
  "takes from retry and resume, there and here, whether a person at a terminal answers questions from now on",
  { timeout: 180_000 },
  async () => {
    place = createCommandPlace({ WAVESMITH_SANDBOX: "local-unsafe" });
    const { onServer, startOnTerminal, stop, url, key } = await serveAt(place);
    const places = {
      there: { run: onServer, terminal: startOnTerminal },
      here: { run: place.run, terminal: (...words: string[]) => place.startOnTerminal(...words).child },
    };
    for (const [name, { run, terminal }] of Object.entries(places)) {
      const planned = (script: string) => place.plan(name, [{ id: "a", run: script }], { source: "empty", ...noGates });
      const failed = await run("build", planned("exit 1"), "--json");
      expect(failed.code, failed.text).toBe(1);
      const id = (JSON.parse(failed.text.split("\n").find((line) => line.startsWith("{"))!) as { buildId: string })
        .buildId;
      const seen = async () => {
        const headers = { authorization: `Bearer ${key}` };
        const answer = await (await fetch(`${url}/api/v1/builds/${id}/view`, { headers })).json();
        return (answer as { view: { build: { interactive: boolean; status: string } } }).view.build;
      };
      const isInteractive = async () => (await seen()).interactive;
      expect([name, await isInteractive()]).toEqual([name, false]);
      const retrying = terminal("retry", id);
      await expect.poll(isInteractive, { timeout: 60_000 }).toBe(true);
      await expect.poll(async () => (await seen()).status, { timeout: 60_000 }).toBe("failed");
      retrying.kill("SIGKILL"); // It asks for a key.
      expect((await run("retry", id)).code).toBe(1);
      expect([name, await isInteractive()]).toEqual([name, false]);
      const go = join(place.folder, `${name}-go`);
      const edited = planned(`until test -e ${go}; do sleep 0.1; done; echo a > a`);
      const resumed = once(terminal("resume", id, "--plan", edited), "close");
      await expect.poll(isInteractive, { timeout: 60_000 }).toBe(true);
      const joining = run("resume", id);
      await expect.poll(isInteractive, { timeout: 60_000 }).toBe(false);
      writeFileSync(go, "");
      expect((await joining).code).toBe(0);
      expect(await resumed).toEqual([0, null]);
    }
    await stop();
  },
);

it("manages a server as it manages a data directory", { timeout: 600_000 }, async () => {
  place = createCommandPlace();
  const { onServer, withInput, same, stop, url } = await serveAt(place);
  const plan = place.plan("shop", [{ id: "one", run: "echo one > one.txt" }], noGates);
  expect(await onServer("build", plan)).toMatchObject({ code: 0 });

  expect(await same(["plan", plan])).toContain("wave 1");
  for (const words of [["gc"], ["gc", "--dry-run"], ["notifications"], ["schedules"], ["sandbox", "ls"]]) {
    await same(words);
    await same([...words, "--json"]);
  }
  for (const command of ["builds", "status", "logs", "diff"]) {
    const [there, here] = await Promise.all([onServer, place.run].map((run) => run(command, "--project", "nobody")));
    const placeless = (text: string) => timeless(text).replaceAll(url, "PLACE").replaceAll(place.data, "PLACE");
    expect([command, there?.code, placeless(there?.text ?? "")]).toEqual([
      command,
      here?.code,
      placeless(here?.text ?? ""),
    ]);
  }
  // It has none, and never will.
  expect(await same(["preview", "--no-wait"])).toContain("has no preview");
  await same(["notifications", "replay"]);
  await same(["notifications", "replay", "ntf_nobody"]);

  expect(await withInput("Use UTC.\n", "memory", "set", "-")).toMatchObject({ code: 0 });
  expect(await same(["memory"])).toContain("Use UTC.");
  await same(["memory", "--json"]);
  await same(["memory", "--project", "nobody"]);
  await same(["memory", "forget"]);

  const made = JSON.parse((await onServer("keys", "create", "ci", "--expires", "12h", "--json")).text.split("\n")[0]!);
  expect(made).toMatchObject({ name: "ci", scope: "build", tenant: "default", key: expect.stringMatching(/^wsk_/) });
  expect((await onServer("keys", "create", "ada", "--tenant", "acme")).text).toContain("tenant acme");
  expect(await same(["keys", "list"])).toContain(made.id);
  expect(await same(["keys", "list", "--tenant", "acme", "--json"])).toContain('"name":"ada"');
  expect((await onServer("keys", "revoke", made.id)).text).toBe(`revoked ${made.id} (ci)\n`);
  expect(await same(["audit"])).toContain("DELETE /keys/{id}");
  await same(["audit", "--json"]);
  await same(["tenants"]);

  writeFileSync(
    join(place.folder, "wavesmith.yaml"),
    `on: { schedule: [{ name: nightly, cron: "0 3 * * *" }] }\nplan: ./shop.json\n`,
  );
  const added = await onServer("schedules", "add", "--json");
  const { id } = JSON.parse(added.text).schedules[0] as { id: string };
  expect((await onServer("schedules", "pause", id)).text).toContain("paused");
  expect(await same(["schedules"])).toContain("nightly");
  expect((await onServer("schedules", "remove", id)).code).toBe(0);
  expect(await same(["schedules"])).toContain("no schedules");
  await stop();
});

it("manages the sandboxes of a server", { timeout: 600_000 }, async () => {
  place = createCommandPlace();
  const { onServer, withInput, startOnServer, same, stop } = await serveAt(place);
  const plan = place.plan("shop", [{ id: "one", run: "echo one > one.txt" }], noGates);
  expect(await onServer("build", plan)).toMatchObject({ code: 0 });
  expect(await same(["sandbox", "start", "shop"])).toContain("the sandbox of shop is running");
  const bytes = randomBytes(3_000_000).toString("hex");
  expect((await withInput(bytes, "sandbox", "exec", "shop", "cat")).text).toBe(bytes);
  await same(["sandbox", "exec", "shop", "--", "sh", "-c", "cat one.txt; echo aside >&2; exit 7"]);
  const going = startOnServer("sandbox", "exec", "shop", "--", "sh", "-c", "echo begun; sleep 600");
  await once(going.stdout, "data");
  going.kill("SIGINT");
  expect(await once(going, "close")).toEqual([130, null]);
  const typed = "pwd | grep -c shell-; cat one.txt; exit 4";
  expect(await same(["shell", "--task", "one"], typed)).toContain("temporary checkout of task one");
  await same(["shell", "--task", "nobody"]);
  expect(await same(["sandbox", "stop", "shop"])).toContain("is stopped");
  await same(["sandbox", "stop", "shop", "--json"]);
  const taken = await onServer("sandbox", "snapshot", "shop", "--json");
  const { snapshot } = JSON.parse(taken.text) as { snapshot: { id: string; project: string } };
  expect(snapshot.project).toBe("shop");
  expect(await same(["sandbox", "snapshot", "--list"])).toContain(snapshot.id);
  await same(["sandbox", "snapshot", "shop", "--list", "--json"]);
  await same(["sandbox", "snapshot", "shop", "--format", "rar"]);
  expect(await same(["sandbox", "restore", "shop"])).toContain(snapshot.id);
  await same(["sandbox", "restore", "shop", "snap_nobody"]);
  expect((await onServer("sandbox", "rm", "shop")).text).toContain("and its volume kept");
  expect(await same(["sandbox", "ls"])).toContain("volume kept");
  expect(await same(["sandbox", "stop", "shop"])).toContain("only its volume is kept");
  await same(["sandbox", "start", "nobody", "--json"]);
  expect(await same(["sandbox", "exec", "nobody", "ls"])).toContain("there is no sandbox of nobody");
  await stop();
});
