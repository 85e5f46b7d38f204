import { readFileSync, statSync } from "node:fs";
import { extname } from "node:path";
import { type Tool, tool } from "ai";
import { z } from "zod";
import { type Change, Refused, resolveInTree } from "../files.ts";
import { answerRefusals, type ToolAction, type ToolSetting } from "./perform.ts";

const editSchema = z.object({ old: z.string().min(1), new: z.string(), all: z.boolean().optional() });
const editsSchema = editSchema.partial().extend({ path: z.string(), edits: z.array(editSchema).optional() });
type Edit = z.infer<typeof editSchema>;

const maxImageBytes = 4 * 1024 * 1024;
const imageTypes: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};

/** Creates the tools that read and change files. `seesImages`: the model can look at images. */
export function createFileTools(
  { tree, files, perform }: ToolSetting,
  { seesImages }: { seesImages: boolean },
): Record<string, Tool> {
  const edit = (description: Omit<ToolAction, "action">, change: Change): Promise<string> =>
    perform({ ...description, action: "edit", change }, () => {
      files.apply(change);
      return "done";
    });
  return {
    read_file: tool({
      description:
        "Reads a text file, or some lines of it (from: the first line, counted from 1). Returns at most 2,000 lines and 48 KB, and cuts long lines; it says where to continue.",
      inputSchema: z.object({
        path: z.string(),
        from: z.int().positive().optional(),
        lines: z.int().positive().optional(),
      }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() =>
          perform({ id, input, title: `Read ${input.path}`, action: "read", paths: [input.path] }, () =>
            files.read(input.path, input),
          ),
        ),
    }),
    write_file: tool({
      description: "Writes a whole file: a new one, or a replacement of one that you have read.",
      inputSchema: z.object({ path: z.string(), content: z.string() }),
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() => {
          const change = files.plan(input.path, () => input.content);
          return edit({ id, input, title: `Write ${input.path}`, paths: [input.path] }, change);
        }),
    }),
    edit_file: tool({
      description:
        "Replaces a text that occurs exactly once in a file you have read (all: every occurrence). `edits` makes several replacements in order, all of them or none.",
      inputSchema: editsSchema,
      execute: (input, { toolCallId: id }) =>
        answerRefusals(() => {
          const change = files.plan(input.path, (before) => replaceAll(before, input));
          return edit({ id, input, title: `Edit ${input.path}`, paths: [input.path] }, change);
        }),
    }),
    ...(seesImages ? { view_image: imageTool(tree, perform) } : {}),
  };
}

function replaceAll(before: string | null, { path, edits = [], ...single }: z.infer<typeof editsSchema>): string {
  if (before === null) throw new Refused(`there is no file ${path}`);
  const first = editSchema.safeParse(single);
  const all = [...(first.success ? [first.data] : []), ...edits];
  if (all.length === 0) throw new Refused("give `old` and `new`, or `edits`");
  return all.reduce((text, edit, at) => replaceOne(text, edit, `edit ${at + 1} of ${path}`), before);
}

function replaceOne(before: string, edit: Edit, where: string): string {
  const parts = before.split(edit.old);
  if (parts.length === 1) throw new Refused(`${where}: the file does not have that text: read it again`);
  if (parts.length > 2 && edit.all !== true) {
    throw new Refused(`${where}: that text occurs ${parts.length - 1} times: give more of it, or set all`);
  }
  return parts.join(edit.new);
}

const imageTool = (tree: string, perform: ToolSetting["perform"]): Tool =>
  tool({
    description: "Shows you an image of your tree (PNG, JPEG, GIF or WebP).",
    inputSchema: z.object({ path: z.string() }),
    execute: (input, { toolCallId: id }) =>
      answerRefusals(() =>
        perform({ id, input, title: `Look at ${input.path}`, action: "read", paths: [input.path] }, () =>
          readImage(tree, input.path),
        ),
      ),
    toModelOutput: ({ output }) =>
      typeof output === "string"
        ? { type: "text", value: output }
        : { type: "content", value: [{ type: "image-data", ...output }] },
  });

function readImage(tree: string, path: string): { readonly data: string; readonly mediaType: string } {
  const target = resolveInTree(tree, path);
  const mediaType = imageTypes[extname(target).toLowerCase()];
  if (mediaType === undefined) throw new Refused(`${path} is not a PNG, JPEG, GIF or WebP`);
  if (statSync(target).size > maxImageBytes) throw new Refused(`${path} is larger than 4 MiB`);
  return { data: readFileSync(target).toString("base64"), mediaType };
}
