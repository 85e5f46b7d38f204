import { z } from "zod";
import { eventMeanings } from "../src/domain/events/event-meanings.ts";
import { eventSchemas } from "../src/domain/events/events.ts";
import { noticedEvents } from "../src/domain/events/notices.ts";
import { fromOutside } from "../src/server/incoming-events.ts";

// Writes docs/events.md from the events' schemas, so that the page is always right.

type EventKey = keyof typeof eventSchemas;
interface FieldSchema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly FieldSchema[];
}
interface ObjectSchema {
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly required?: readonly string[];
}

const shared = ["tenantId", "projectId", "buildId", "requestedBy", "metadata"];
const groups: readonly (readonly [title: string, prefix: RegExp])[] = [
  ["Builds and waves", /^project\/|^agent\/(wave|preview|pull-request)/],
  ["Tasks and gates", /^agent\/(?!wave|preview|pull-request)/],
  ["Forges and CI", /^(ci|forge)\//],
  ["Sandboxes and chores", /^(sandbox|snapshot)\//],
];

const examples: Record<(typeof fromOutside)[number], { readonly data: object; readonly note: string }> = {
  "project/build.requested": {
    data: { plan: { name: "hello", source: "empty", tasks: [{ id: "hello", run: "echo hello > hello" }] } },
    note: "Start a build. `brief` instead of `plan` asks a planner for one; `metadata` (a JSON object of at most 16 KB) comes back on every event of the build.",
  },
  "project/build.cancel-requested": { data: { buildId: "bld_…", reason: "no longer needed" }, note: "Cancel a build." },
  "project/wave.approved": {
    data: { buildId: "bld_…", waveNumber: 1, by: "Ada" },
    note: "Approve the wave that waits.",
  },
  "project/wave.rejected": {
    data: { buildId: "bld_…", waveNumber: 1, by: "Ada", reason: "the form loses its text" },
    note: "Reject it, which blocks it. A retry gives your reason to the fixer.",
  },
};

/** Returns the page as Markdown. */
export const eventsPage = (): string =>
  [
    intro,
    "## Events that you may send",
    "```sh\nURL=http://127.0.0.1:4400\nKEY=$(cat .wavesmith/serve-key)        # or $INNGEST_EVENT_KEY, if you set one\n```",
    ...fromOutside.map((name) => trigger(name)),
    "Give an event an `id` of your own if you may send it twice: the second one changes nothing.",
    ...groups.flatMap(([title, prefix]) => [`## ${title}`, table(prefix)]),
  ]
    .join("\n\n")
    .concat("\n");

const intro = `# Events

<!-- Written by \`npm run events\` from src/domain/events/events.ts. Do not edit it here. -->

Everything that happens in a build is an event. \`wavesmith serve\` takes those of the next section at
\`POST /e/KEY\`, as Inngest does; [the API](api.md) streams all of them, \`build --json\` prints them,
and with an Inngest server your own functions can wait for them. Ids have the form
\`event:subject:epoch\`, and one id means one event, however often it arrives.

Every event of a build carries ${shared.slice(0, 3).map(code).join(", ")}, and \`requestedBy\` and
\`metadata\` if its request had them. The tables leave these five out. A field with \`?\` may be
absent.`;

function trigger(name: (typeof fromOutside)[number]): string {
  const { data, note } = examples[name];
  const body = JSON.stringify({ name, data });
  return `### \`${name}\`\n\n${wrapped(note)}\n\n\`\`\`sh\ncurl -X POST "$URL/e/$KEY" -H 'Content-Type: application/json' \\\n  -d '${body}'\n\`\`\``;
}

function table(prefix: RegExp): string {
  const rows = Object.keys(eventSchemas)
    .filter((name) => prefix.test(name))
    .map((name) => {
      const noticed = (noticedEvents as readonly string[]).includes(name) ? " Sent to `notify`." : "";
      return `| \`${name}\` | ${eventMeanings[name as EventKey]}${noticed} | ${fieldsOf(name as EventKey)} |`;
    });
  return ["| event | means | data |", "|---|---|---|", ...rows].join("\n");
}

function fieldsOf(name: EventKey): string {
  const { properties = {}, required = [] } = z.toJSONSchema(eventSchemas[name], {
    unrepresentable: "any",
    io: "input",
  }) as ObjectSchema;
  return Object.entries(properties)
    .filter(([field]) => !shared.includes(field) || name === "project/build.requested")
    .map(([field, schema]) => `\`${field}${required.includes(field) ? "" : "?"}\`${typeText(schema)}`)
    .join(", ");
}

/** Says a type where it is not plain text. */
function typeText(schema: FieldSchema): string {
  const { type, enum: values, anyOf } = schema;
  if (values !== undefined) return ` (${values.join(", ")})`;
  if (anyOf?.some((one) => one.type === "null") === true)
    return `${typeText(anyOf.find((one) => one.type !== "null")!)} or null`;
  return type === undefined || type === "string" ? "" : ` (${type})`;
}

function code(text: string): string {
  return `\`${text}\``;
}

/** Breaks a paragraph into lines of at most 100 columns. */
function wrapped(text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1) ?? "";
    if (last !== "" && last.length + word.length >= 100) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines.join("\n");
}
