import { z } from "zod";

/** How we sign in to GitHub, and what may start a build there. */
export const githubSettings = {
  WAVESMITH_GITHUB_TOKEN: z
    .string()
    .min(20, "must be a GitHub token")
    .optional()
    .describe("signs in to GitHub, for plans that deliver there; by default what `wavesmith github setup` stored"),
  WAVESMITH_GITHUB_APP_ID: z
    .string()
    .regex(/^(\d{1,12}|Iv\w+)$/, "must be the App's id or client id")
    .optional()
    .describe("signs in as a GitHub App instead, with the next setting"),
  WAVESMITH_GITHUB_APP_KEY_FILE: z.string().optional().describe("the file with that App's private key (PEM)"),
  WAVESMITH_GITHUB_API: z
    .string()
    .regex(/^https?:\/\/\S+$/, "must be a URL, such as https://github.example.com/api/v3")
    .default("https://api.github.com")
    .describe("the address of GitHub's API, for GitHub Enterprise"),
  WAVESMITH_GITHUB_URL: z
    .string()
    .regex(/^https?:\/\/\S+$/, "must be a URL, such as https://github.example.com")
    .default("https://github.com")
    .describe("the address of GitHub's pages and of git there"),
  WAVESMITH_GITHUB_WEBHOOK_SECRET: z
    .string()
    .min(8, "must have at least 8 characters")
    .optional()
    .describe("the secret of GitHub's webhooks, several with commas while it is rotated; without it all are refused"),
  WAVESMITH_GITHUB_REPOSITORIES: z
    .string()
    .regex(
      /^[\w.-]+\/([\w.-]+|\*)(\s*,\s*[\w.-]+\/([\w.-]+|\*))*$/,
      "must be owner/name or owner/*, with commas between",
    )
    .optional()
    .describe(
      "repositories on GitHub, as `owner/name` or `owner/*`, separated by commas, where pushes, labels, issues and comments may start builds even if no build has delivered there yet",
    ),
  WAVESMITH_GITHUB_POLL: z
    .string()
    .regex(
      /^([3-9]\d|[1-9]\d{2,4})s$|^[1-9]\d{0,3}m$|^never$/,
      "must be a time of at least 30s, such as 60s or 5m, or never",
    )
    .default("never")
    .describe("how often `serve` asks GitHub for news, for a server that its webhooks cannot reach; or `never`"),
  WAVESMITH_GITHUB_LABEL: z.string().min(1).default("wavesmith").describe("the label that starts a build of an issue"),
  WAVESMITH_GITHUB_ASSIGNEE: z
    .string()
    .optional()
    .describe("an account on GitHub: assigning an issue to it starts a build; by default none"),
} as const;
