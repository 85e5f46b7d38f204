/** The languages shown in colours. Others are plain text: their grammars would be most of the dashboard. */
export const colouredLanguages: ReadonlySet<string> = new Set(
  `astro bash c clojure cpp csharp css dart diff docker elixir go graphql haskell hcl html ini java javascript json json5
  jsonc jsx kotlin less lua make markdown mdx nginx nix perl php powershell prisma proto python r ruby rust scala scss
  shellscript sql svelte swift terraform toml tsx typescript vue xml yaml zig`.split(/\s+/),
);
