import { checkFields, type Fields, fieldsOf, isInline, listOf, type Report, reportType } from "./parts.ts";

const knownFields = new Set([
  ...["model", "input", "instructions", "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls"],
  ...["temperature", "top_p", "stream", "stream_options", "include", "reasoning", "text", "metadata", "user"],
  ...["safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "truncation"],
  ...["service_tier", "top_logprobs", "max_tool_calls", "client_metadata", "store", "background"],
]);
/** Tools that the agent itself runs. */
const clientTools = new Set(["function", "custom", "namespace", "local_shell", "apply_patch", "tool_search"]);
const inlineItems = new Set([
  ...["message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning"],
  ...["local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call"],
  ...["apply_patch_call_output", "tool_search_call", "tool_search_output", "compaction", "compaction_trigger"],
  ...["additional_tools"],
  // Results of a provider's tool in an earlier call are plain text now.
  "web_search_call",
]);
const inlineParts = new Set(["input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"]);
const knownOfFile = new Set(["type", "file_data", "filename", "detail", "prompt_cache_breakpoint"]);
const knownOfImage = new Set(["type", "image_url", "detail", "prompt_cache_breakpoint"]);

/** Checks OpenAI responses. */
export function checkResponses(body: Fields, report: Report): void {
  checkFields(body, knownFields, "", report);
  if (body.store === true) report({ part: "store: true", tool: "stored" });
  checkTools(body.tools, "tools", report);
  listOf(body.input).forEach((item, at) => {
    checkItem(item, `input[${at}]`, report);
  });
}

function checkTools(tools: unknown, where: string, report: Report): void {
  listOf(tools).forEach((tool, at) => {
    const here = `${where}[${at}]`;
    const isLocalShell = tool.type === "shell" && fieldsOf(tool.environment).type === "local";
    if (!isLocalShell && !clientTools.has(String(tool.type))) reportType(tool.type, here, report);
    if (tool.type === "namespace") checkTools(tool.tools, `${here}.tools`, report);
  });
}

function checkItem(item: Fields, where: string, report: Report): void {
  // The type of a message is optional.
  const type = item.type ?? ("role" in item ? "message" : undefined);
  if (!inlineItems.has(String(type))) reportType(type, where, report);
  checkTools(item.tools, `${where}.tools`, report);
  for (const name of ["content", "output"]) {
    listOf(item[name]).forEach((part, at) => {
      checkPart(part, `${where}.${name}[${at}]`, report);
    });
  }
}

function checkPart(part: Fields, where: string, report: Report): void {
  if (part.type === "input_image") {
    checkFields(part, knownOfImage, where, report);
    const isLink = part.image_url !== undefined && part.image_url !== null && !isInline(part.image_url);
    if (isLink) report({ part: `${where}.image_url with a URL`, tool: "urls" });
  } else if (part.type === "input_file") {
    const { file_url: link, ...file } = part;
    if (link !== undefined && link !== null) report({ part: `${where}.file_url`, tool: "urls" });
    checkFields(file, knownOfFile, where, report);
  } else if (part.type === "input_audio") {
    checkFields(part, new Set(["type", "input_audio"]), where, report);
  } else if (part.type !== undefined && !inlineParts.has(String(part.type))) {
    reportType(part.type, where, report);
  }
}
