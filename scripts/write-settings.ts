import { readFileSync, writeFileSync } from "node:fs";
import { exampleEnvironment, settingsTables, startOfTables } from "./settings-pages.ts";

// Writes the tables of docs/settings.md, and .env.example, from the schema of the settings.

const page = "docs/settings.md";
const [intro] = readFileSync(page, "utf8").split(startOfTables);
writeFileSync(page, `${intro}${startOfTables}\n\n${settingsTables()}`);
writeFileSync(".env.example", exampleEnvironment());
