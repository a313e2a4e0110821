// Keeps a page that moves up to date: asks for the page again and takes over what has changed. Pages are whole without it.
"use strict";

const PAUSE_MS = 1000;
const PAUSE_MAX_MS = 30000;

const main = document.getElementById("main");
let pause = PAUSE_MS;

// What the reader has opened stays open, what has the focus keeps it, and what is selected stays selected.
function takeOver(next) {
  const fresh = next.getElementById("main");
  if (!fresh) return;
  keepOpen(main, fresh);
  renewWithin(main, fresh);
}

// Makes what was there say what is new. What shows the same thing stays in the document, so that a click on its way arrives.
function renew(old, now) {
  if (old.isEqualNode(now)) return;
  if (!isSame(old, now) || old.nodeType !== Node.ELEMENT_NODE) {
    if (!isHeld(old)) old.replaceWith(now);
    return;
  }
  if (isHeld(old) && old.matches("input, select, textarea")) return;
  for (const { name } of Array.from(old.attributes)) if (!now.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of now.attributes) old.setAttribute(name, value);
  renewWithin(old, now);
}

function renewWithin(old, now) {
  const [before, after] = [Array.from(old.childNodes), Array.from(now.childNodes)];
  const isInPlace = (one, idx) => !isHeld(one) || isSame(one, after[idx]);
  if (before.length !== after.length || !before.every(isInPlace)) renewAround(old, before, after);
  else before.forEach((one, idx) => renew(one, after[idx]));
}

// Where something came, went or moved: what is held stays where it is, and the rest is put around it.
function renewAround(old, before, after) {
  const held = before.filter(isHeld);
  const meant = held.map((one) => after.find((other) => isSame(one, other)));
  // What is held is there no longer: it stays until it is let go.
  if (meant.includes(undefined)) return;
  before.filter((one) => !held.includes(one)).forEach((one) => one.remove());
  for (const [idx, one] of after.entries()) {
    const follows = held.find((_, place) => after.indexOf(meant[place]) > idx) ?? null;
    if (!meant.includes(one)) old.insertBefore(one, follows);
  }
  held.forEach((one, idx) => renew(one, meant[idx]));
}

function isHeld(node) {
  const selection = document.getSelection();
  return (
    (node.contains(document.activeElement) && !main.isSameNode(document.activeElement)) ||
    (selection !== null && !selection.isCollapsed && selection.containsNode(node, true))
  );
}

// Whether two parts show the same thing, before and after.
function isSame(one, other) {
  return one.nodeName === other.nodeName && mark(one) === mark(other);
}

function mark(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  // A row of a list is about what it leads to.
  const link = node.matches("tr, li, article") ? node.querySelector("a[href]") : node;
  return node.id || node.getAttribute("aria-labelledby") || (link?.getAttribute("href") ?? "");
}

function keepOpen(old, now) {
  const [opened, other] = [old, now].map((part) => Array.from(part.querySelectorAll("details")));
  other.forEach((details, idx) => details.toggleAttribute("open", opened[idx]?.open ?? details.open));
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
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    // The session has ended: the browser goes where the server sends it, which is to sign in.
    if (answer.type === "opaqueredirect") return location.reload();
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
