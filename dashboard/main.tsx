import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { sessionQuery } from "./api/queries.ts";
import { ApiError } from "./api/request.ts";
import { router } from "./router.tsx";
import { restoreTheme } from "./shell/theme.ts";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/start.css";
import "./styles/build.css";
import "./styles/panel.css";
import "./styles/project.css";

restoreTheme();

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    // The session has ended, perhaps in another tab; asking for it again shows the page to sign in.
    onError(error, { queryKey }) {
      const { queryKey: ofSession } = sessionQuery;
      if (error instanceof ApiError && error.status === 401 && queryKey[0] !== ofSession[0])
        void client.resetQueries({ queryKey: ofSession });
    },
  }),
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
