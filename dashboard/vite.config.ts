import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { colouredLanguages } from "./parts/coloured-languages.ts";

const noGrammar = "\0no-grammar";

/** Leaves the grammars of all other languages out of the highlighter's list. */
const onlyColouredLanguages: Plugin = {
  name: "only-coloured-languages",
  enforce: "pre",
  resolveId(source, importer) {
    const language = /^@shikijs\/langs\/([\w-]+)$/.exec(source)?.[1];
    if (language === undefined || importer?.includes("langs-bundle-full") !== true) return null;
    return colouredLanguages.has(language) ? null : noGrammar;
  },
  load: (id) => (id === noGrammar ? "export default [];" : null),
};

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  plugins: [onlyColouredLanguages],
  build: {
    emptyOutDir: true,
    // The server's policy runs no script that is not a file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1_000,
    target: "es2022",
  },
});
