import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// The settings of agents we know, so that they use our model proxy, their own configuration folder
// and no telemetry.

export interface Setting {
  readonly home: string;
  readonly model: string | null;
  /** How hard the model thinks; null: its default. */
  readonly effort: string | null;
  /** The model proxy as seen in the sandbox, and the attempt's token; null without a proxy. */
  readonly proxy: { readonly url: string; readonly token: string } | null;
  /** Whether the provider may search the web for the agent. */
  readonly webSearch: boolean;
}

/**
 * Returns the variables to add to the job's environment for an agent: its own home and, with a
 * proxy, the address and key for models. Creates the folders and files they name.
 */
export function agentEnvironment(command: string, setting: Setting): Record<string, string> {
  const { home } = setting;
  const config = join(home, ".config");
  mkdirSync(config, { recursive: true });
  return {
    HOME: home,
    XDG_CONFIG_HOME: config,
    XDG_DATA_HOME: join(home, ".local/share"),
    XDG_STATE_HOME: join(home, ".local/state"),
    XDG_CACHE_HOME: join(home, ".cache"),
    ...(setting.model === null ? {} : { WAVESMITH_MODEL: setting.model }),
    ...(setting.effort === null ? {} : { WAVESMITH_MODEL_EFFORT: setting.effort }),
    ...models(setting),
    ...claude(setting),
    ...(/codex/.test(command) ? codex(setting) : {}),
    ...(/opencode/.test(command) ? opencode(setting) : {}),
    ...(/gemini/.test(command) ? gemini(setting) : {}),
  };
}

/**
 * Whether the agent can continue a session only in the folder where it began: opencode would work
 * in that folder, or fail because it is gone, and Gemini CLI does not find the session elsewhere.
 */
export const bindsSessions = (command: string): boolean => /opencode|gemini/.test(command);

/** Whether the agent forgets an interrupted turn, and the prompt of that turn with it. */
export const forgetsInterrupted = (command: string): boolean => /gemini/.test(command);

/** Variables that most programs use to reach models. */
function models({ proxy, model }: Setting): Record<string, string> {
  if (proxy === null) return {};
  return {
    ANTHROPIC_BASE_URL: `${proxy.url}/anthropic`,
    ANTHROPIC_AUTH_TOKEN: proxy.token,
    OPENAI_BASE_URL: `${proxy.url}/openai/v1`,
    OPENAI_API_KEY: proxy.token,
    GOOGLE_GEMINI_BASE_URL: `${proxy.url}/gemini`,
    GEMINI_API_KEY: proxy.token,
    ...(model === null ? {} : { ANTHROPIC_MODEL: bare(model), OPENAI_MODEL: bare(model), GEMINI_MODEL: bare(model) }),
  };
}

/** Removes the provider: `anthropic:claude-x` is `claude-x` to an agent of one provider. */
const bare = (model: string): string => model.slice(model.indexOf(":") + 1);

const claude = ({ home, effort }: Setting): Record<string, string> => ({
  ...(effort === null ? {} : { CLAUDE_CODE_EFFORT_LEVEL: effort }),
  CLAUDE_CONFIG_DIR: join(home, ".claude"),
  // Otherwise its adapter prints each step of its start; errors it still prints.
  CLAUDE_AGENT_LOGS: join(home, ".claude", "adapter-logs"),
  // Otherwise it hides the tools of MCP servers from the first request.
  ENABLE_TOOL_SEARCH: "false",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  // Disables a model call after every turn that suggests what a person may type next.
  CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: "false",
  // The proxy waits for a busy provider. Other failures, such as a rejected key, would be retried
  // for minutes.
  CLAUDE_CODE_MAX_RETRIES: "2",
});

function codex({ home, model, effort, proxy, webSearch }: Setting): Record<string, string> {
  const folder = join(home, ".codex");
  mkdirSync(folder, { recursive: true });
  const lines = [
    ...(model === null ? [] : [`model = ${JSON.stringify(bare(model))}`]),
    ...(effort === null ? [] : [`model_reasoning_effort = ${JSON.stringify(effort === "max" ? "xhigh" : effort)}`]),
    'approval_policy = "on-request"',
    'sandbox_mode = "danger-full-access"',
    // Otherwise every call offers the provider's own search tool, which our proxy refuses.
    ...(webSearch ? [] : ['web_search = "disabled"']),
    ...(proxy === null
      ? []
      : [
          'model_provider = "wavesmith"',
          "[model_providers.wavesmith]",
          'name = "wavesmith"',
          `base_url = ${JSON.stringify(`${proxy.url}/openai/v1`)}`,
          'env_key = "OPENAI_API_KEY"',
          'wire_api = "responses"',
          // The proxy waits for a busy provider.
          "request_max_retries = 2",
          "stream_max_retries = 2",
        ]),
  ];
  writeFileSync(join(folder, "config.toml"), `${lines.join("\n")}\n`);
  // Its adapter prefers the mode over the file. Every other mode runs commands in its own
  // bubblewrap, which cannot be nested in ours, or has a model review MCP tool calls. In this mode
  // it asks for nothing, because the sandbox confines it.
  return { CODEX_HOME: folder, INITIAL_AGENT_MODE: "agent-full-access" };
}

function opencode({ home, model, proxy }: Setting): Record<string, string> {
  const file = join(home, ".config", "opencode.json");
  const chosen = model === null ? {} : { model: inOpencode(model), small_model: inOpencode(model) };
  const config = {
    // The small model names its sessions.
    ...chosen,
    ...(proxy === null ? {} : opencodeProviders(proxy, model)),
    permission: { edit: "ask", bash: "ask", webfetch: "ask" },
    // The model sees what was refused, and continues.
    experimental: { continue_loop_on_deny: true },
    autoupdate: false,
    share: "disabled",
  };
  writeFileSync(file, JSON.stringify(config, null, 2));
  return { OPENCODE_CONFIG: file, OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" };
}

const inOpencode = (model: string): string => model.replace(":", "/");

/**
 * Enables only our providers: without a model it would use a free one of its vendor, which would
 * then read the repository.
 */
function opencodeProviders({ url, token }: { url: string; token: string }, model: string | null) {
  const at = (path: string) => ({ options: { baseURL: `${url}${path}`, apiKey: token } });
  const provider: Record<string, object> = {
    anthropic: at("/anthropic/v1"),
    openai: at("/openai/v1"),
    google: at("/gemini/v1beta"),
    compatible: { npm: "@ai-sdk/openai-compatible", name: "compatible", ...at("/compatible/v1") },
  };
  const [name = "", id = ""] = model === null ? [] : inOpencode(model).split(/\/(.*)/s);
  if (/^compatible-/.test(name)) provider[name] = { npm: "@ai-sdk/openai-compatible", name, ...at(`/${name}/v1`) };
  // A model that is newer than its list is still a model.
  if (provider[name] !== undefined) provider[name] = { ...provider[name], models: { [id]: {} } };
  return { provider, enabled_providers: Object.keys(provider) };
}

function gemini({ home }: Setting): Record<string, string> {
  const folder = join(home, ".gemini");
  mkdirSync(folder, { recursive: true });
  // The proxy waits for a busy provider.
  const settings = {
    general: { enableAutoUpdate: false, maxAttempts: 3 },
    // Its own detection looks at the calls alone, not at their results, and ends the turn at once.
    model: { disableLoopDetection: true },
    privacy: { usageStatisticsEnabled: false },
  };
  writeFileSync(join(folder, "settings.json"), JSON.stringify(settings, null, 2));
  return {
    GEMINI_TELEMETRY_ENABLED: "false",
    NO_BROWSER: "true",
    // In a folder that it does not trust it starts no MCP server, not even ours.
    GEMINI_CLI_TRUST_WORKSPACE: "true",
  };
}
