import { checkFields, type Fields, fieldsOf, isInline, listOf, type Report, reportType } from "./parts.ts";

const knownFields = new Set([
  ...["model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "stream"],
  ...["stream_options", "tools", "tool_choice", "parallel_tool_calls", "response_format", "seed", "presence_penalty"],
  ...["frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "user", "reasoning_effort", "verbosity"],
  ...["metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "functions", "function_call"],
  ...["n", "service_tier", "usage", "store"],
  // Extra fields of servers for open models, all of which only shape the answer.
  ...["top_k", "min_p", "top_a", "typical_p", "repetition_penalty", "chat_template_kwargs", "enable_thinking"],
  ...["thinking", "thinking_budget", "reasoning", "include_reasoning", "reasoning_format", "guided_json"],
  ...["guided_regex", "guided_grammar", "json_schema", "grammar", "cache_prompt", "id_slot", "keep_alive"],
  ...["skip_special_tokens", "stop_token_ids", "ignore_eos", "tool_stream", "random_seed", "safe_prompt"],
]);
const knownOfMessage = new Set([
  ...["role", "content", "name", "tool_calls", "tool_call_id", "refusal", "function_call", "reasoning"],
  ...["reasoning_content", "reasoning_details", "reasoning_text", "reasoning_opaque", "annotations", "prefix"],
  ...["tool_name", "extra_content", "cache_control", "thinking", "id"],
]);
const inlineParts = new Set(["text", "refusal", "input_audio", "thinking", "reasoning"]);
const linkedParts = new Set(["image_url", "video_url", "audio_url"]);

/** Checks OpenAI chat completions and compatible APIs. */
export function checkChat(body: Fields, report: Report): void {
  checkFields(body, knownFields, "", report);
  if (body.store === true) report({ part: "store: true", tool: "stored" });
  listOf(body.messages).forEach((message, at) => {
    checkFields(message, knownOfMessage, `messages[${at}]`, report);
    listOf(message.content).forEach((part, number) => {
      checkPart(part, `messages[${at}].content[${number}]`, report);
    });
  });
  listOf(body.tools).forEach(({ type }, at) => {
    if (type !== "function" && type !== "custom") reportType(type, `tools[${at}]`, report);
  });
}

function checkPart(part: Fields, where: string, report: Report): void {
  const type = String(part.type);
  if (linkedParts.has(type)) {
    const link = part[type];
    if (!isInline(typeof link === "string" ? link : fieldsOf(link).url)) {
      report({ part: `${where}.${type} with a URL`, tool: "urls" });
    }
  } else if (type === "file") {
    checkFields(fieldsOf(part.file), new Set(["file_data", "filename"]), `${where}.file`, report);
    const { file_data: data } = fieldsOf(part.file);
    if (typeof data === "string" && /^https?:/i.test(data)) {
      report({ part: `${where}.file.file_data with a URL`, tool: "urls" });
    }
  } else if (!inlineParts.has(type)) {
    reportType(part.type, where, report);
  }
}
