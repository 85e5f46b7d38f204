import "@xterm/xterm/css/xterm.css";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { pageToken } from "../api/page-token.ts";
import { useTheme } from "../shell/theme.ts";

interface TerminalViewProps {
  readonly buildId: string;
  readonly task: string;
}

const themes = {
  dark: { background: "#0a0e13", foreground: "#e8edf3", cursor: "#4cc9e0", selectionBackground: "#4cc9e055" },
  light: { background: "#ffffff", foreground: "#15191f", cursor: "#0b6b7f", selectionBackground: "#0b6b7f44" },
} as const;
const fontSize = 13;
const scrollbarWidth = 14;

/** A shell in a checkout of a task's last commit. It ends when this view closes. */
export function TerminalView({ buildId, task }: TerminalViewProps) {
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const [ending, setEnding] = useState<string | null>(null);
  const [round, setRound] = useState(0);
  const terminal = useRef<Terminal | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another round opens another shell; the theme changes below
  useEffect(() => {
    if (place.current === null) return;
    const frame = place.current;
    const screen = new Terminal({ fontSize, theme: themes[theme], scrollback: 10_000 });
    terminal.current = screen;
    screen.open(frame);
    fitTerminal(screen, frame);
    screen.focus();
    const socket = connect(buildId, task, screen);
    const leave = follow(socket, screen, setEnding);
    const observer = new ResizeObserver(() => fitTerminal(screen, frame));
    observer.observe(frame);
    setEnding(null);
    return () => {
      observer.disconnect();
      leave();
      screen.dispose();
    };
  }, [buildId, task, round]);
  useEffect(() => {
    if (terminal.current !== null) terminal.current.options.theme = themes[theme];
  }, [theme]);
  return (
    <div className="terminal-frame">
      <div ref={place} className="terminal-place" role="application" aria-label={`Terminal in the tree of ${task}`} />
      {ending !== null && (
        <div className="row wrap small terminal-end" role="status">
          <span className="grow">{ending}</span>
          <button type="button" className="button" onClick={() => setRound(round + 1)}>
            Open another
          </button>
        </div>
      )}
    </div>
  );
}

/** Gives a terminal as many rows and columns as fit into its frame. */
function fitTerminal(screen: Terminal, frame: HTMLElement): void {
  const drawn = screen.element?.querySelector(".xterm-screen")?.getBoundingClientRect();
  const { paddingLeft, paddingRight, paddingTop, paddingBottom } = getComputedStyle(frame);
  if (drawn === undefined || drawn.width === 0 || frame.clientWidth === 0) return;
  const width = frame.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight) - scrollbarWidth;
  const height = frame.clientHeight - Number.parseFloat(paddingTop) - Number.parseFloat(paddingBottom);
  const columns = Math.max(20, Math.floor((width * screen.cols) / drawn.width));
  screen.resize(columns, Math.max(4, Math.floor((height * screen.rows) / drawn.height)));
}

function connect(buildId: string, task: string, { rows, cols }: Terminal): WebSocket {
  const asked = new URLSearchParams({ task, rows: String(rows), columns: String(cols) });
  const url = `${location.origin.replace(/^http/, "ws")}/api/v1/builds/${encodeURIComponent(buildId)}/shell?${asked}`;
  const socket = new WebSocket(url, ["wavesmith.shell", `wavesmith.token.${pageToken()}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

interface Said {
  readonly note?: string;
  readonly error?: string;
  readonly exit?: number | null;
}

/** Connects a socket with a terminal. Returns what disconnects them. */
function follow(socket: WebSocket, screen: Terminal, onEnd: (how: string) => void): () => void {
  let ending = "The connection was lost.";
  const typed = new TextEncoder();
  const typing = screen.onData((text) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(typed.encode(text));
  });
  const resizing = screen.onResize(({ rows, cols: columns }) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ rows, columns }));
  });
  screen.write("opening a shell…\r\n");
  socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
    if (typeof data !== "string") return screen.write(new Uint8Array(data));
    const { note, error, exit } = JSON.parse(data) as Said;
    if (note !== undefined) screen.write(`${note.replace(/[\x00-\x1f\x7f-\x9f]/g, " ")}\r\n`);
    if (error !== undefined) ending = error;
    if (exit !== undefined) ending = `The shell has ended${exit === null ? "" : ` with exit code ${exit}`}.`;
  };
  socket.onclose = () => onEnd(ending);
  return () => {
    socket.onclose = null;
    typing.dispose();
    resizing.dispose();
    socket.close();
  };
}
