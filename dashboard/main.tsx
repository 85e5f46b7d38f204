import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { router } from "./router.tsx";
import { restoreTheme } from "./shell/theme.ts";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/build.css";
import "./styles/panel.css";

restoreTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Queries ask again at intervals and after events instead.
      retry: false,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

const place = document.getElementById("page");
if (place === null) throw new Error("the page has no place for the dashboard");
createRoot(place).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
