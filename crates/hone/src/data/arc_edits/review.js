"use strict";
const samples = [...document.querySelectorAll(".sample")];
const batch = document.querySelector("main .bar").dataset.batch;
const verdicts = {};
let at = -1;
function tell() {
  const said = Object.values(verdicts);
  const count = (word) => said.filter((one) => one === word).length;
  document.getElementById("told").textContent =
    `${count("accept")} accepted, ${count("reject")} rejected, ${samples.length - said.length} open`;
}
function keep() {
  try { localStorage.setItem("hone-review-" + batch, JSON.stringify(verdicts)); } catch { /* A page without memory still works. */ }
}
function judge(sample, verdict) {
  if (verdict) { verdicts[sample.dataset.id] = verdict; sample.dataset.verdict = verdict; }
  else { delete verdicts[sample.dataset.id]; delete sample.dataset.verdict; }
  sample.querySelector(".said").textContent = verdict ? verdict + "ed" : "open";
  keep();
  tell();
}
function go(to) {
  at = Math.max(0, Math.min(samples.length - 1, to));
  if (samples[at]) { samples[at].focus(); samples[at].scrollIntoView({ block: "start" }); }
}
function save() {
  const ordered = Object.fromEntries(Object.keys(verdicts).sort().map((id) => [id, verdicts[id]]));
  const text = JSON.stringify({ v: 1, batch, verdicts: ordered }, null, 1) + "\n";
  document.getElementById("file").textContent = text;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "review.json";
  link.click();
}
samples.forEach((sample, nth) => {
  sample.addEventListener("focusin", () => { at = nth; });
  sample.querySelectorAll("button").forEach((button) => {
    button.addEventListener("click", () => judge(sample, button.dataset.verdict || null));
  });
});
document.getElementById("save").addEventListener("click", save);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const moves = { j: () => go(at + 1), k: () => go(at - 1), s: save };
  const words = { a: "accept", r: "reject", u: null };
  if (event.key in moves) { moves[event.key](); event.preventDefault(); }
  else if (event.key in words && samples[at]) { judge(samples[at], words[event.key]); event.preventDefault(); }
});
try {
  const before = JSON.parse(localStorage.getItem("hone-review-" + batch) || "{}");
  samples.forEach((sample) => { if (before[sample.dataset.id]) judge(sample, before[sample.dataset.id]); });
} catch { /* A page without memory begins anew. */ }
tell();
