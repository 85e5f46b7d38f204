// Comfort in the browser. Without this file the page still reads, pages and signs.
const book = document.querySelector("[data-book]");
const form = document.querySelector("[data-form]");

// What this visitor wrote, by entry: the key that lets them take it back.
const keys = {
  all: () => JSON.parse(localStorage.getItem("guestbook.keys") ?? "{}"),
  set: (id, key) => localStorage.setItem("guestbook.keys", JSON.stringify({ ...keys.all(), [id]: key })),
};

const ask = (path, options) => fetch(`/api/entries${path}`, options);
const entryOf = (element) => element.closest("[data-entry]");

function sayTimes() {
  const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const steps = [
    [60, "second"],
    [60, "minute"],
    [24, "hour"],
    [7, "day"],
  ];
  for (const time of book.querySelectorAll("[data-time]")) {
    let amount = (Date.parse(time.dateTime) - Date.now()) / 1000;
    const step = steps.find(([size]) => {
      if (Math.abs(amount) < size) return true;
      amount /= size;
      return false;
    });
    time.title ||= new Date(time.dateTime).toLocaleString();
    if (step) time.textContent = format.format(Math.round(amount), step[1]); // older than a week: the date stays
  }
}

function showMine() {
  const mine = keys.all();
  for (const button of book.querySelectorAll("[data-remove]")) button.hidden = !(entryOf(button).dataset.entry in mine);
}

/** Takes the entries from the server's own page, so there is one template and not two. */
async function refresh(path = location.pathname + location.search, fresh = null) {
  const page = new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
  book.replaceChildren(...page.querySelector("[data-book]").childNodes);
  if (fresh) book.querySelector(`[data-entry="${CSS.escape(fresh)}"]`)?.classList.add("fresh");
  sayTimes();
  showMine();
}

function showProblems(problems) {
  for (const place of form.querySelectorAll("[data-problem]")) {
    const name = place.dataset.problem;
    place.textContent = problems[name] ?? "";
    const control = form.elements[name];
    if (name in problems) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  form.querySelector("[aria-invalid]")?.focus();
}

async function sign(event) {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const body = JSON.stringify(Object.fromEntries(new FormData(form)));
    const response = await ask("", { method: "POST", headers: { "content-type": "application/json" }, body });
    const answer = await response.json();
    showProblems(response.status === 422 ? answer.problems : {});
    if (response.status === 422) return;
    if (!response.ok) throw new Error(answer.title);
    keys.set(answer.entry.id, answer.deleteKey);
    form.reset();
    form.querySelector("[data-counted]").dispatchEvent(new Event("input"));
    history.replaceState(null, "", "/");
    await refresh("/", answer.entry.id);
  } catch (error) {
    showProblems({ message: `That did not work: ${error.message}` });
  } finally {
    button.disabled = false;
  }
}

async function giveHeart(button) {
  const count = button.querySelector("[data-hearts]");
  count.textContent = Number(count.textContent) + 1;
  button.classList.add("given");
  const response = await ask(`/${entryOf(button).dataset.entry}/hearts`, { method: "POST" });
  if (response.ok) count.textContent = (await response.json()).hearts;
  else await refresh();
}

async function takeBack(button) {
  const id = entryOf(button).dataset.entry;
  if (!confirm("Take this entry back?")) return;
  await ask(`/${id}`, { method: "DELETE", headers: { "x-delete-key": keys.all()[id] } });
  await refresh();
}

function countLetters(area) {
  const counter = Object.assign(document.createElement("span"), { className: "counter" });
  area.after(counter);
  const show = () => {
    counter.textContent = area.value === "" ? "" : `${area.maxLength - area.value.length} left`;
  };
  area.addEventListener("input", show);
  show();
}

form.addEventListener("submit", sign);
book.addEventListener("click", (event) => {
  const heart = event.target.closest("[data-heart]");
  const remove = event.target.closest("[data-remove]");
  if (heart) giveHeart(heart);
  if (remove) takeBack(remove);
});
countLetters(form.querySelector("[data-counted]"));
sayTimes();
showMine();
setInterval(sayTimes, 30_000);
