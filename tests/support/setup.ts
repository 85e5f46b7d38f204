// Vitest loads this before each test file.
import { afterAll, afterEach } from "vitest";
import { cleanUpAfterFile, cleanUpAfterTest } from "./after-file.ts";

afterAll(cleanUpAfterFile);
afterEach(cleanUpAfterTest);
