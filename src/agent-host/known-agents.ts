import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// What agents we know want to be told, so that they use our model proxy, a configuration of their own and no telemetry.

export interface Setting {
  readonly home: string;
  readonly model: string | null;
  /** The model proxy inside the sandbox, and the attempt's token; null without one. */
  readonly proxy: { readonly url: string; readonly token: string } | null;
}

/**
 * The environment of an agent, over what the job has: a home of its own and, with a proxy, where models are and what to
 * say there. Makes the folders and files it names.
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
    ...models(setting),
    ...claude(setting),
    ...(/codex/.test(command) ? codex(setting) : {}),
    ...(/opencode/.test(command) ? opencode(setting) : {}),
    ...(/gemini/.test(command) ? gemini() : {}),
  };
}

/** What most programs that speak to models read. */
function models({ proxy, model }: Setting): Record<string, string> {
  if (proxy === null) return {};
  return {
    ANTHROPIC_BASE_URL: `${proxy.url}/anthropic`,
    ANTHROPIC_AUTH_TOKEN: proxy.token,
    OPENAI_BASE_URL: `${proxy.url}/openai/v1`,
    OPENAI_API_KEY: proxy.token,
    ...(model === null ? {} : { ANTHROPIC_MODEL: bare(model), OPENAI_MODEL: bare(model) }),
  };
}

/** `anthropic:claude-x` is `claude-x` to the agent of one provider. */
const bare = (model: string): string => model.slice(model.indexOf(":") + 1);

const claude = ({ home }: Setting): Record<string, string> => ({
  CLAUDE_CONFIG_DIR: join(home, ".claude"),
  // Without this it hides tools of MCP servers from the first request.
  ENABLE_TOOL_SEARCH: "false",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
});

function codex({ home, model, proxy }: Setting): Record<string, string> {
  const folder = join(home, ".codex");
  mkdirSync(folder, { recursive: true });
  const lines = [
    ...(model === null ? [] : [`model = ${JSON.stringify(bare(model))}`]),
    // It asks us; and MCP calls go straight to the server instead of to a model that reviews them.
    'approval_policy = "on-request"',
    'sandbox_mode = "danger-full-access"',
    ...(proxy === null
      ? []
      : [
          'model_provider = "wavesmith"',
          "[model_providers.wavesmith]",
          'name = "wavesmith"',
          `base_url = ${JSON.stringify(`${proxy.url}/openai/v1`)}`,
          'env_key = "OPENAI_API_KEY"',
          'wire_api = "responses"',
        ]),
  ];
  writeFileSync(join(folder, "config.toml"), `${lines.join("\n")}\n`);
  return { CODEX_HOME: folder };
}

function opencode({ home, model, proxy }: Setting): Record<string, string> {
  const file = join(home, ".config", "opencode.json");
  const provider =
    proxy === null
      ? {}
      : {
          anthropic: { options: { baseURL: `${proxy.url}/anthropic/v1`, apiKey: proxy.token } },
          openai: { options: { baseURL: `${proxy.url}/openai/v1`, apiKey: proxy.token } },
        };
  const config = {
    ...(model === null ? {} : { model: model.replace(":", "/") }),
    provider,
    permission: { edit: "ask", bash: "ask", webfetch: "ask" },
    autoupdate: false,
    share: "disabled",
  };
  writeFileSync(file, JSON.stringify(config, null, 2));
  return { OPENCODE_CONFIG: file };
}

const gemini = (): Record<string, string> => ({ GEMINI_TELEMETRY_ENABLED: "false", NO_BROWSER: "true" });
