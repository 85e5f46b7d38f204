import {
  type NotificationView,
  notificationJson,
  type Replayed,
  sendNotificationsAgain,
} from "../../api/notifications.ts";
import type { Context } from "../context.ts";
import { withStore } from "../data/reading.ts";
import { withSteering } from "../data/steering.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, table } from "../output/format.ts";
import { defined } from "../server/defined.ts";
import { serverApi } from "../server/server-api.ts";

const most = 50;

/** `notifications`: lists what `notify` sent, newest first, and what could not be sent. */
export async function listNotifications(context: Context): Promise<number> {
  const server = await serverApi(context);
  if (server !== null) {
    const query = { latest: "true" as const, limit: most };
    show(context, (await server.ask(server.api.GET("/api/v1/notifications", { params: { query } }))).items);
    return exit.ok;
  }
  return withStore(context, "notifications", {
    unused: () => {
      if (context.json) context.out.json({ notifications: [] });
      else context.out.line("no notifications: nothing has been built here yet");
      return exit.ok;
    },
    read: async ({ store }) => {
      const rows = await store.notifications.list({}, { by: "createdAt", descending: true, limit: most });
      show(context, rows.map(notificationJson));
      return exit.ok;
    },
  });
}

type Shown = Pick<NotificationView, "title" | "to" | "status" | "tries" | "problem" | "createdAt"> & {
  readonly id: string;
};

function show({ out, json, hints }: Context, notifications: readonly Shown[]): void {
  if (json) out.json({ notifications });
  else if (notifications.length === 0)
    out.line("no notifications: to get some, name addresses under `notify` in a plan");
  else for (const line of table(notifications.map((one) => cells(one, new Date())))) out.line(line);
  const dead = notifications.filter(({ status }) => status === "dead").length;
  if (!json && dead > 0)
    out.note(
      `${count(dead, "notification")} could not be sent; to try again: ${hints.command("notifications replay")}`,
    );
}

function cells(one: Shown, now: Date): string[] {
  const state = one.status === "waiting" && one.tries > 0 ? `waiting, failed ${times(one.tries)}` : one.status;
  return [one.id, state, one.title, `to ${one.to}`, ago(new Date(one.createdAt), now), one.problem ?? ""];
}

const times = (tries: number): string => (tries === 1 ? "once" : `${tries} times`);

/** `notifications replay [ID]`: sends one again, or all that were not sent. */
export async function replayNotifications(context: Context, id: string | undefined): Promise<number> {
  const server = await serverApi(context);
  if (server !== null)
    return report(
      context,
      await server.ask(server.api.POST("/api/v1/notifications/replay", { body: defined({ id }) })),
    );
  return withSteering(context, async ({ app }) => report(context, await sendNotificationsAgain(app.ports, id ?? null)));
}

function report({ out, json }: Context, { tried, failed }: Outcome): number {
  if (json) out.json({ tried, failed });
  else {
    out.line(tried === 0 ? "everything was sent" : `tried ${count(tried, "notification")} again`);
    for (const { id, problem, status } of failed)
      out.line(`  ${id} failed: ${problem}${status === "dead" ? "" : "; it is tried again later"}`);
  }
  return failed.length === 0 ? exit.ok : exit.failed;
}

interface Outcome extends Pick<Replayed, "tried"> {
  readonly failed: readonly Shown[];
}
