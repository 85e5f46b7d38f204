import { queryOptions } from "@tanstack/react-query";
import { isMoving } from "../parts/tones.ts";
import { api, dataOf } from "./request.ts";

// Every question the pages ask. Keys begin with the thing, so that an event can name what changed.

const listMs = 2_500;
/** Also asked while nobody sees the page, for its icon and notifications. */
const watched = {
  refetchInterval: () => (document.hidden ? 5_000 : listMs),
  refetchIntervalInBackground: true,
} as const;
const pollMs = 2_000;
const all = { query: { limit: 200 } };
const isOver = (status: string | undefined): boolean =>
  status === "completed" || status === "failed" || status === "cancelled";

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => dataOf(api.GET("/api/v1/session", { signal })),
  retry: false,
  staleTime: Number.POSITIVE_INFINITY,
});

export const signInProvidersQuery = queryOptions({
  queryKey: ["sign-in-providers"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/session/providers", { signal }))).items,
  retry: false,
  staleTime: Number.POSITIVE_INFINITY,
});

export const inboxQuery = queryOptions({
  queryKey: ["inbox"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/inbox", { signal }))).items,
  ...watched,
});

export const buildsQuery = (project?: string) =>
  queryOptions({
    queryKey: ["builds", project ?? null],
    queryFn: async ({ signal }) => {
      const query = { limit: 100, ...(project === undefined ? {} : { project }) };
      return (await dataOf(api.GET("/api/v1/builds", { params: { query }, signal }))).items;
    },
    ...watched,
  });

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/projects", { params: all, signal }))).items,
  refetchInterval: 10_000,
});

export const projectQuery = (id: string) =>
  queryOptions({
    queryKey: ["projects", id],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/projects/{id}", { params: { path: { id } }, signal })),
  });

export const sandboxesQuery = queryOptions({
  queryKey: ["sandboxes"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/sandboxes", { params: all, signal }))).items,
  refetchInterval: listMs,
});

export const sandboxUsageQuery = queryOptions({
  queryKey: ["sandboxes", "usage"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/sandboxes/usage", { signal }))).items,
  refetchInterval: 10_000,
});

export const snapshotsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ["snapshots", projectId],
    queryFn: async ({ signal }) => {
      const params = { path: { id: projectId } };
      return (await dataOf(api.GET("/api/v1/projects/{id}/snapshots", { params, signal }))).items;
    },
  });

export const restorePointsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ["restore-points", projectId],
    queryFn: async ({ signal }) => {
      const params = { path: { id: projectId } };
      return (await dataOf(api.GET("/api/v1/projects/{id}/restore-points", { params, signal }))).items;
    },
    refetchInterval: 10_000,
  });

export const previewsQuery = queryOptions({
  queryKey: ["previews"],
  queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/previews", { signal }))).items,
  refetchInterval: listMs,
});

export const buildQuery = (id: string) =>
  queryOptions({
    queryKey: ["build", id, "state"],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/builds/{id}", { params: { path: { id } }, signal })),
    refetchInterval: ({ state: { data } }) => (isOver(data?.status) ? false : pollMs),
  });

export const graphQuery = (id: string) =>
  queryOptions({
    queryKey: ["build", id, "graph"],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/builds/{id}/graph", { params: { path: { id } }, signal })),
    // Polled while a wave moves, to show what its agents are doing right now.
    refetchInterval: ({ state: { data } }) => (data?.waves.some(({ status }) => isMoving(status)) ? pollMs : false),
  });

export const gatesQuery = (id: string) =>
  queryOptions({
    queryKey: ["build", id, "gates"],
    queryFn: async ({ signal }) =>
      (await dataOf(api.GET("/api/v1/builds/{id}/gates", { params: { path: { id } }, signal }))).items,
  });

export const taskQuery = (id: string, task: string) =>
  queryOptions({
    queryKey: ["build", id, "task", task],
    queryFn: ({ signal }) =>
      dataOf(api.GET("/api/v1/builds/{id}/tasks/{task}", { params: { path: { id, task } }, signal })),
  });

export const promptQuery = (id: string, task: string, attempt: number) =>
  queryOptions({
    queryKey: ["build", id, "prompt", task, attempt],
    queryFn: ({ signal }) => {
      const params = { path: { id, task }, query: { attempt } };
      return dataOf(api.GET("/api/v1/builds/{id}/tasks/{task}/prompt", { params, signal }));
    },
  });

export const planQuery = (id: string) =>
  queryOptions({
    queryKey: ["build", id, "plan"],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/builds/{id}/plan", { params: { path: { id } }, signal })),
  });

export const planTextQuery = (id: string) =>
  queryOptions({
    queryKey: ["plan-text", id],
    queryFn: ({ signal }) =>
      dataOf(api.GET("/api/v1/builds/{id}/plan/text", { params: { path: { id } }, parseAs: "text", signal })),
    // Never replace what somebody is typing.
    refetchOnWindowFocus: false,
    gcTime: 0,
  });

/** The task or wave to show the diff of; with neither, the whole build. */
export interface DiffOf {
  readonly task?: string | undefined;
  readonly wave?: number | undefined;
}

export const diffQuery = (id: string, { task, wave }: DiffOf) =>
  queryOptions({
    queryKey: ["build", id, "diff", task ?? null, wave ?? null],
    queryFn: ({ signal }) => {
      const query = { ...(task === undefined ? {} : { task }), ...(wave === undefined ? {} : { wave }) };
      const params = { path: { id }, query };
      return dataOf(api.GET("/api/v1/builds/{id}/diff", { params, parseAs: "text", signal }));
    },
    retry: false,
  });
