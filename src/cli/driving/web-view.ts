import type { Context } from "../context.ts";
import { dashboardFiles } from "../dashboard-files.ts";
import { findServer, recordAddress } from "../data/server-address.ts";
import type { Session } from "../data/session.ts";
import { askForLink, showInBrowser } from "../data/sign-in-link.ts";
import { openServer, serverKey } from "../parts.ts";
import type { Presenter } from "../view/presenter.ts";

/** The dashboard while a build runs in this process. */
export interface WebView {
  stop(): Promise<void>;
}

interface WebViewOptions {
  readonly context: Context;
  readonly session: Session;
  readonly presenter: Presenter;
  readonly buildId: string;
}

/**
 * Shows a build in the browser: by the server of this data directory, or else by one of its own.
 */
export async function openWebView({ context, session, presenter, buildId }: WebViewOptions): Promise<WebView> {
  const config = await context.config();
  const plain = (text: string): void => presenter.lines([{ tone: "plain", text }]);
  const running = await findServer(config.dataDir);
  const own = running === null ? await serveHere() : null;
  const link = await askForLink(config, running ?? own!.server.origin);
  const url = `${link ?? running}&to=${encodeURIComponent(`/builds/${buildId}`)}`;
  plain(`watch it in the browser (this link signs you in, once): ${url}`);
  if (context.out.live) showInBrowser(url);
  return {
    async stop() {
      await own?.removeAddress();
      await own?.server.stop(1_000);
    },
  };

  async function serveHere() {
    const dashboard = await dashboardFiles(() => plain("building the dashboard, because it has changed"));
    const key = config.serveKey ?? (await serverKey(config)).key;
    const server = await openServer({
      ...{ app: session.app, engine: config.engine, key, host: "127.0.0.1", port: 0, dashboard },
      inform: plain,
      warn: presenter.warn,
    });
    return { server, removeAddress: await recordAddress(config.dataDir, server.origin) };
  }
}
