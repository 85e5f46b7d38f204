import { existsSync } from "node:fs";
import { defineConfig } from "drizzle-kit";

export default defineConfig({
  dialect: "postgresql",
  schema: ["./src/store/schema.ts", "./src/engine/tables.ts"].filter((file) => existsSync(file)),
  out: "./drizzle",
});
