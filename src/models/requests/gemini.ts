import { checkFields, type Fields, fieldsOf, listOf, type Report } from "./parts.ts";

// Google accepts fields as `camelCase` and as `snake_case`; agents write the first. We read output
// limits only in that spelling, so the other one is refused there.

const knownFields = new Set([
  ...["contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config", "safetySettings"],
  ...["safety_settings", "generationConfig", "labels", "model", "serviceTier"],
]);
const knownOfConfig = new Set([
  ...["temperature", "topP", "topK", "maxOutputTokens", "candidateCount", "stopSequences", "responseMimeType"],
  ...["responseSchema", "responseJsonSchema", "responseFormat", "presencePenalty", "frequencyPenalty", "seed"],
  ...["responseLogprobs", "logprobs", "thinkingConfig", "mediaResolution", "responseModalities"],
]);
const knownOfPart = new Set([
  ...["text", "inlineData", "inline_data", "functionCall", "function_call", "functionResponse", "function_response"],
  ...["thought", "thoughtSignature", "thought_signature", "videoMetadata", "mediaResolution", "partMetadata"],
  // Results of a provider's tool in an earlier call are plain text now.
  ...["executableCode", "codeExecutionResult"],
]);
const knownOfTool = new Set(["functionDeclarations", "function_declarations"]);

/** Checks Gemini's generateContent and countTokens. */
export function checkGemini(body: Fields, report: Report): void {
  const { generateContentRequest: inner, ...fields } = body;
  if (inner !== undefined) checkGemini(fieldsOf(inner), report);
  checkFields(fields, knownFields, "", report);
  const config = fieldsOf(body.generationConfig);
  checkFields(config, knownOfConfig, "generationConfig", report);
  const { responseModalities: kinds } = config;
  if (Array.isArray(kinds) && kinds.some((kind) => !/^text$/i.test(String(kind)))) {
    report({ part: "generationConfig.responseModalities", tool: "image_generation" });
  }
  for (const name of ["systemInstruction", "system_instruction", "contents"]) {
    listOf(body[name]).forEach(({ parts }, at) => {
      checkParts(parts, `${name}[${at}].parts`, report);
    });
  }
  listOf(body.tools).forEach((tool, at) => {
    checkFields(tool, knownOfTool, `tools[${at}]`, report);
  });
}

function checkParts(parts: unknown, where: string, report: Report): void {
  listOf(parts).forEach((part, at) => {
    const here = `${where}[${at}]`;
    const { fileData, file_data: alike = fileData, ...others } = part;
    if (alike !== undefined) {
      const { fileUri, file_uri: uri = fileUri } = fieldsOf(alike);
      const isKept = /^https:\/\/generativelanguage\.googleapis\.com\//.test(String(uri));
      report({ part: `${here}.fileData`, tool: isKept ? "files" : "urls" });
    }
    checkFields(others, knownOfPart, here, report);
    const answer = fieldsOf(part.functionResponse ?? part.function_response);
    checkParts(answer.parts, `${here}.functionResponse.parts`, report);
  });
}
