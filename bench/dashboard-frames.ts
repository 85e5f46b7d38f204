import type { Browser, Page } from "playwright-core";

/** How each page is panned: a script that moves it by one frame's step. */
export const panning = {
  /** As a touchpad does it, a wheel event for each frame. */
  graph: `step => document.querySelector(".react-flow__pane").dispatchEvent(new WheelEvent("wheel",
    { deltaX: step, deltaMode: 0, bubbles: true, cancelable: true, clientX: 600, clientY: 400 }))`,
  bare: `step => { globalThis.x = (globalThis.x ?? 0) - step;
    document.querySelector("#world").style.transform = "translate(" + globalThis.x + "px, 0)"; }`,
} as const;

const pixelsAFrame = 24;

/** Pans a page to and fro for some time. Returns the milliseconds between two frames. */
export const framesWhile = (page: Page, pan: string, ms: number): Promise<number> =>
  page.evaluate(`new Promise((resolve) => {
    const move = ${pan};
    const begun = performance.now();
    let frames = 0;
    const frame = () => {
      const passed = performance.now() - begun;
      if (passed > ${ms}) return resolve(passed / frames);
      frames += 1;
      move(Math.floor(passed / 1000) % 2 === 0 ? ${pixelsAFrame} : -${pixelsAFrame});
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  })`);

/** Returns the time at which an element of the page has a text. */
export const textSeenAt = (page: Page, selector: string, text: string): Promise<number> =>
  page.evaluate(`new Promise((resolve) => {
    const look = () => {
      if (document.querySelector("${selector}")?.textContent.includes("${text}")) resolve(Date.now());
      else setTimeout(look, 4);
    };
    look();
  })`);

/**
 * Scrolls through a diff. Returns the share of places looked at, five in each frame, that showed
 * nothing of a file.
 */
export const blanksWhileScrolling = (page: Page, ms: number): Promise<number> =>
  page.evaluate(`new Promise((resolve) => {
    const begun = performance.now();
    let looked = 0;
    let blank = 0;
    const frame = () => {
      if (performance.now() - begun > ${ms}) return resolve(blank / looked);
      scrollBy(0, 40);
      for (const share of [0.1, 0.3, 0.5, 0.7, 0.9]) {
        const y = innerHeight * share;
        const element = document.elementFromPoint(innerWidth * 0.7, y);
        looked += 1;
        if (element === null || !element.matches(".file-change")) continue;
        // Neither the head of a file, nor its text, nor its text in colour; its border is no text.
        const { top, bottom } = element.getBoundingClientRect();
        if (y >= top + element.clientTop && y < bottom - element.clientTop) blank += 1;
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  })`);

/** A page with 500 boxes the size of our cards, and nothing else. */
export async function barePage(browser: Browser): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const boxes = Array.from({ length: 500 }, (_, index) => {
    const [column, row] = [Math.floor(index / 9), index % 9];
    const place = `left:${column * 250}px;top:${70 + row * 80}px`;
    return `<div class="box" style="${place}"><b>t${column}-${row}</b><br><small>default</small></div>`;
  });
  await page.setContent(`<style>
    body { margin: 0; overflow: hidden; background: #f6f7f9; font: 13px sans-serif; }
    #world { position: absolute; will-change: transform; }
    .box { position: absolute; width: 204px; height: 64px; padding: 5px 9px; border: 1px solid #dfe3ea;
      border-radius: 6px; background: #fff; overflow: hidden; }
  </style><div id="world">${boxes.join("")}</div>`);
  return page;
}
