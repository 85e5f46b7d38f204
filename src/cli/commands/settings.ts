import { type SettingsView, viewSettings } from "../../api/settings.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { table } from "../output/format.ts";
import { serverApi } from "../server/server-api.ts";

/** `settings`: shows every setting and where its value came from. */
export async function printSettings(context: Context, { all }: { readonly all: boolean }): Promise<number> {
  const server = await serverApi(context);
  const view =
    server === null
      ? viewSettings(await context.config())
      : ((await server.ask(server.api.GET("/api/v1/settings"))) as unknown as SettingsView);
  const { items, restartNeeded } = view;
  if (context.json) {
    context.out.json({ ...(server === null ? { file: view.file } : {}), restartNeeded, settings: items });
    return exit.ok;
  }
  const shown = items.filter(({ source }) => all || source !== "default");
  for (const line of table(shown.map(cells))) context.out.line(line);
  const rest = items.length - shown.length;
  if (rest > 0) context.out.line(`${rest} more have their default values: ${context.hints.command("settings --all")}`);
  if (server === null) context.out.note(`the file is ${view.file}; environment variables override it`);
  if (restartNeeded) context.out.note("the file has changed since the server started: restart the server");
  return exit.ok;
}

function cells({ name, key, value, isSecret, isSet, source, line }: SettingsView["items"][number]): string[] {
  const from = line === null ? source : `file, line ${line}`;
  return [
    key ?? name,
    isSecret ? (isSet ? "(set)" : "(not set)") : (value ?? "(not set)"),
    from,
    key === null ? "" : name,
  ];
}
