import { z } from "@hono/zod-openapi";
import { viewSettings, writeSettings } from "../../api/settings.ts";
import { hideSettings } from "../access/operators.ts";
import { problemWith } from "../problem.ts";
import { type ApiContext, type Endpoint, endpoint, planEndpoint } from "./endpoint.ts";

const settingsReply = z
  .looseObject({
    text: z.string(),
    tag: z.string(),
    restartNeeded: z.boolean(),
    items: z.array(
      z.looseObject({
        name: z.string(),
        key: z.string().nullable(),
        value: z.string().nullable(),
        isSecret: z.boolean(),
        isSet: z.boolean(),
        source: z.string(),
      }),
    ),
  })
  .openapi("Settings");

/** The settings of the whole server, for admins of the default tenant, who run it. */
export function settingsEndpoints({ app: { config } }: ApiContext): Endpoint[] {
  const show = () => {
    const { file: _, ...view } = viewSettings(config);
    return { headers: { etag: view.tag }, body: view };
  };
  return [
    endpoint("get /settings", {
      summary: "Show the settings in use, where each came from, and the settings file; no secrets",
      needs: "admin",
      reply: settingsReply,
      async handle({ caller }) {
        hideSettings(caller);
        return show();
      },
    }),
    planEndpoint("put /settings", {
      summary: "Replace the settings file (YAML or JSON); it counts from the server's next start on. Takes If-Match",
      needs: "admin",
      reply: settingsReply,
      async handle({ caller, body, header }) {
        hideSettings(caller);
        const tag = header("if-match") ?? null;
        const faults = await writeSettings(config, { ...body, tag: tag === "*" ? null : tag });
        if (faults.length === 0) return show();
        const number = faults.length === 1 ? "1 fault" : `${faults.length} faults`;
        return problemWith(422, "settings-invalid", `the settings have ${number}`, {
          remedy: "fix them; GET /settings shows the names of all settings",
          extra: { faults },
        });
      },
    }),
  ];
}
