import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { BuildPage } from "./build/build-page.tsx";
import { type BuildFilter, BuildsPage, buildFilters } from "./build/builds-page.tsx";
import { type BuildSearch, taskParts, views } from "./build/selection.ts";
import { HomePage } from "./home/home-page.tsx";
import { NotFound } from "./parts/not-found.tsx";
import { Empty } from "./parts/states.tsx";
import { Shell } from "./shell/shell.tsx";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <NotFound what="There is no such page." />,
  errorComponent: ({ error }) => <Empty title="This page failed.">{String(error)}</Empty>,
});

const text = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) : undefined;
const number = (value: unknown): number | undefined => (Number.isInteger(Number(value)) ? Number(value) : undefined);
type Without<Search> = { [Name in keyof Search]?: Exclude<Search[Name], undefined> };
const without = <Search extends object>(search: Search): Without<Search> =>
  Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as Without<Search>;

interface ChangesSearch {
  readonly task?: string;
  readonly wave?: number;
}

const projectTabs = ["files", "memory", "preview"] as const;

interface ProjectSearch {
  readonly tab?: (typeof projectTabs)[number];
  /** The file or, with a slash at its end, the folder that is shown. */
  readonly file?: string;
}

const home = createRoute({ getParentRoute: () => root, path: "/", component: HomePage });
const builds = createRoute({
  getParentRoute: () => root,
  path: "/builds",
  component: BuildsPage,
  validateSearch: (search: Record<string, unknown>): { only?: BuildFilter } =>
    without({ only: buildFilters.find((filter) => filter === search.only) }),
});
const build = createRoute({
  getParentRoute: () => root,
  path: "/builds/$id",
  component: BuildPage,
  validateSearch: (search: Record<string, unknown>): BuildSearch =>
    without({
      view: views.find((view) => view === search.view),
      task: text(search.task),
      part: taskParts.find((part) => part === search.part),
      attempt: search.attempt === undefined ? undefined : number(search.attempt),
      gate: text(search.gate),
    }),
});
const changes = createRoute({
  getParentRoute: () => root,
  path: "/builds/$id/changes",
  component: lazyRouteComponent(() => import("./changes/changes-page.tsx"), "ChangesPage"),
  validateSearch: (search: Record<string, unknown>): ChangesSearch =>
    without({
      task: text(search.task),
      wave: search.wave === undefined ? undefined : number(search.wave),
    }),
});
const plan = createRoute({
  getParentRoute: () => root,
  path: "/builds/$id/plan",
  component: lazyRouteComponent(() => import("./build/plan-page.tsx"), "PlanPage"),
});
const request = createRoute({
  getParentRoute: () => root,
  path: "/builds/$id/request",
  component: lazyRouteComponent(() => import("./request/request-page.tsx"), "RequestPage"),
  validateSearch: (search: Record<string, unknown>): { readonly wave?: number } =>
    without({ wave: search.wave === undefined ? undefined : number(search.wave) }),
});
const start = createRoute({
  getParentRoute: () => root,
  path: "/start",
  component: lazyRouteComponent(() => import("./start/start-page.tsx"), "StartPage"),
  validateSearch: (search: Record<string, unknown>): { project?: string; from?: "brief" } =>
    without({ project: text(search.project), from: search.from === "brief" ? "brief" : undefined }),
});
const projects = createRoute({
  getParentRoute: () => root,
  path: "/projects",
  component: lazyRouteComponent(() => import("./project/projects-page.tsx"), "ProjectsPage"),
});
const project = createRoute({
  getParentRoute: () => root,
  path: "/projects/$id",
  component: lazyRouteComponent(() => import("./project/project-page.tsx"), "ProjectPage"),
  validateSearch: (search: Record<string, unknown>): ProjectSearch =>
    without({ tab: projectTabs.find((tab) => tab === search.tab), file: text(search.file) }),
});
const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: lazyRouteComponent(() => import("./settings/settings-page.tsx"), "SettingsPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([home, builds, build, changes, request, plan, start, projects, project, settings]),
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
