import { checkFields, type Fields, fieldsOf, listOf, type Report, reportType } from "./parts.ts";

const knownFields = new Set([
  ...["model", "messages", "max_tokens", "metadata", "stop_sequences", "stream", "system", "temperature", "thinking"],
  ...[
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "output_config",
    "output_format",
    "context_management",
    "cache_control",
  ],
  ...["service_tier"],
]);
/** Tools that the agent itself runs, and those that search the request's own tools. */
const clientTool = /^(custom|(bash|text_editor|memory|computer)_\d{8}|tool_search_tool_\w+)$/;
const inlineBlocks = new Set([
  ...["text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result"],
  // Results of a provider's tool in an earlier call are plain text now.
  ...[
    "tool_reference",
    "tool_search_tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
  ],
]);
const inlineSources = new Set(["base64", "text", "content"]);

/** Checks Anthropic messages. */
export function checkMessages(body: Fields, report: Report): void {
  checkFields(body, knownFields, "", report);
  checkBlocks(body.system, "system", report);
  listOf(body.messages).forEach(({ content }, at) => {
    checkBlocks(content, `messages[${at}].content`, report);
  });
  listOf(body.tools).forEach(({ type }, at) => {
    if (type !== undefined && type !== null && !clientTool.test(String(type))) reportType(type, `tools[${at}]`, report);
  });
  listOf(fieldsOf(body.context_management).edits).forEach(({ type }, at) => {
    if (!/^clear_/.test(String(type))) reportType(type, `context_management.edits[${at}]`, report);
  });
}

function checkBlocks(content: unknown, where: string, report: Report): void {
  listOf(content).forEach((block, at) => {
    const here = `${where}[${at}]`;
    if (!inlineBlocks.has(String(block.type))) reportType(block.type, here, report);
    if (block.type === "tool_result") checkBlocks(block.content, `${here}.content`, report);
    if (block.type === "image" || block.type === "document") checkSource(block.source, `${here}.source`, report);
  });
}

function checkSource(value: unknown, where: string, report: Report): void {
  const { type, content } = fieldsOf(value);
  if (type === "url") report({ part: `${where}.type: url`, tool: "urls" });
  else if (!inlineSources.has(String(type))) reportType(type, where, report);
  if (type === "content") checkBlocks(content, `${where}.content`, report);
}

/** Features that a beta header enables beyond those visible in the body. */
export const outsideBeta = /^(mcp-client|code-execution|files-api|skills|web-fetch|web-search|computer-use)-/;
