// Keeps a page that moves up to date: asks for the page again and takes over what has changed. Pages are whole without it.
"use strict";

const PAUSE_MS = 1000;
const PAUSE_MAX_MS = 30000;

const main = document.getElementById("main");
let pause = PAUSE_MS;

// What the reader has opened stays open, and what has the focus stays as it is.
function takeOver(next) {
  const fresh = next.getElementById("main");
  if (!fresh) return;
  const before = Array.from(main.children);
  const after = Array.from(fresh.children);
  if (before.length !== after.length) {
    if (!main.contains(document.activeElement) || document.activeElement === main) main.replaceChildren(...after);
    return;
  }
  before.forEach((old, idx) => {
    const now = after[idx];
    keepOpen(old, now);
    if (!old.isEqualNode(now) && !old.contains(document.activeElement)) old.replaceWith(now);
  });
}

function keepOpen(old, now) {
  const opened = old.matches("details") ? [old] : Array.from(old.querySelectorAll("details"));
  const other = now.matches("details") ? [now] : Array.from(now.querySelectorAll("details"));
  if (opened.length === other.length) opened.forEach((details, idx) => other[idx].toggleAttribute("open", details.open));
  const boxes = Array.from(old.querySelectorAll("input[type=checkbox]"));
  for (const box of now.querySelectorAll("input[type=checkbox]")) {
    const was = boxes.find((one) => one.name === box.name && one.value === box.value);
    if (was) box.checked = was.checked;
  }
}

function say(next) {
  const [old, now] = [document.getElementById("moves"), next.getElementById("moves")];
  if (old && now && old.textContent !== now.textContent) old.textContent = now.textContent;
}

async function look() {
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    takeOver(next);
    say(next);
    document.body.classList.remove("lost");
    pause = next.getElementById("main")?.hasAttribute("data-live") ? PAUSE_MS : 0;
  } catch {
    document.body.classList.add("lost");
    pause = Math.min(pause * 2, PAUSE_MAX_MS);
  }
  wait();
}

function wait() {
  if (pause === 0) return;
  setTimeout(() => {
    // Nobody looks: the next look is when somebody does.
    if (document.hidden) document.addEventListener("visibilitychange", look, { once: true });
    else look();
  }, pause);
}

if (main && main.hasAttribute("data-live")) wait();

// The way through a list by keys: j and k go down and up, Enter opens.
document.addEventListener("keydown", (press) => {
  if (press.target.closest("input, select, textarea") || press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      press.preventDefault();
      search.focus();
    }
  }
  if (press.key !== "j" && press.key !== "k") return;
  const rows = Array.from(document.querySelectorAll("tbody th[scope=row] a, .turn .where a"));
  const here = rows.indexOf(document.activeElement);
  const next = rows[press.key === "j" ? Math.min(here + 1, rows.length - 1) : Math.max(here - 1, 0)];
  if (next) next.focus();
});
