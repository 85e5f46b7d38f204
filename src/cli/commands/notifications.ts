import { notificationJson } from "../../api/notifications.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { withStore } from "../data/reading.ts";
import { withSteering } from "../data/steering.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, table } from "../output/format.ts";

const most = 50;

/** `notifications`: lists what `notify` sent, newest first, and what could not be sent. */
export function listNotifications(context: Context): Promise<number> {
  const { out, json, hints } = context;
  return withStore(context, "notifications", {
    unused: () => {
      if (json) out.json({ notifications: [] });
      else out.line("no notifications: nothing was built here yet");
      return exit.ok;
    },
    read: async ({ store }) => {
      const rows = await store.notifications.list({}, { by: "createdAt", descending: true, limit: most });
      const shown = rows.map(notificationJson);
      if (json) out.json({ notifications: shown });
      else if (shown.length === 0) out.line("no notifications: a plan names who hears of it in `notify`");
      else for (const line of table(shown.map((one) => cells(one, new Date())))) out.line(line);
      const dead = shown.filter(({ status }) => status === "dead").length;
      if (!json && dead > 0)
        out.note(`${count(dead, "notification")} given up; to try again: ${hints.command("notifications replay")}`);
      return exit.ok;
    },
  });
}

function cells(one: ReturnType<typeof notificationJson>, now: Date): string[] {
  const state = one.status === "waiting" && one.tries > 0 ? `waiting, failed ${times(one.tries)}` : one.status;
  return [one.id, state, one.title, `to ${one.to}`, ago(new Date(one.createdAt), now), one.problem ?? ""];
}

const times = (tries: number): string => (tries === 1 ? "once" : `${tries} times`);

/** `notifications replay [ID]`: sends one again, or all that were not sent. */
export function replayNotifications(context: Context, id: string | undefined): Promise<number> {
  return withSteering(context, async ({ app }) => {
    const { deliverDueNotices, retryNotices } = await import("../../coordinator/notification/deliver-notices.ts");
    const again = await retryNotices(app.ports, id ?? null);
    if (id !== undefined && again === 0) {
      throw new WavesmithError("not-found", `there is no notification ${id}`, {
        remedy: context.hints.command("notifications"),
      });
    }
    while ((await deliverDueNotices(app.ports, "all")) > 0);
    const which = id === undefined ? ({ status: "waiting" } as const) : { id };
    const left = (await app.store.notifications.list(which)).filter(
      ({ status, tries }) => status !== "sent" && tries > 0,
    );
    if (context.json) context.out.json({ tried: again, failed: left.map(notificationJson) });
    else {
      context.out.line(again === 0 ? "everything was sent" : `tried ${count(again, "notification")} again`);
      for (const { id: failed, problem, status } of left)
        context.out.line(`  ${failed} failed: ${problem}${status === "dead" ? "" : "; it is tried again later"}`);
    }
    return left.length === 0 ? exit.ok : exit.failed;
  });
}
