// What is wrong with the page for who uses no mouse, sees little, or has it read aloud: a list of sentences.
const wrong = [];
const all = (selector) => Array.from(document.querySelectorAll(selector));
const what = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${(element.textContent || "").trim().slice(0, 40)}`;

// Structure: one language, one title, landmarks, one heading of the first level, no level left out.
if (document.documentElement.lang !== "en") wrong.push("the page does not say its language");
if (all("main").length !== 1 || all("h1").length !== 1) wrong.push("a page has one main part and one first heading");
if (all("header.top").length && !all("nav[aria-label]").length) wrong.push("the navigation has no name");
let level = 0;
for (const heading of all("h1, h2, h3")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) wrong.push(`a level of headings is left out before ${what(heading)}`);
  level = next;
}
const ids = all("[id]").map((element) => element.id);
ids.filter((id, idx) => ids.indexOf(id) !== idx).forEach((id) => wrong.push(`the id ${id} is there twice`));

// Everything has a name.
for (const field of all("input:not([type=hidden]), select, textarea")) {
  const label = field.closest("label") || document.querySelector(`label[for="${field.id}"]`);
  if (!label || !label.textContent.trim()) wrong.push(`a field has no label: ${field.name}`);
}
for (const element of all("a, button")) {
  if (!element.textContent.trim() && !element.getAttribute("aria-label")) wrong.push(`nothing is said of ${element.outerHTML}`);
}
for (const picture of all("svg")) {
  if (picture.getAttribute("role") !== "img" || !picture.getAttribute("aria-label")) wrong.push("a picture is not told in words");
}
for (const table of all("table")) {
  if (!table.caption || !table.caption.textContent.trim()) wrong.push(`a table has no caption: ${what(table)}`);
  if (!table.querySelector("thead th[scope=col]")) wrong.push(`a table has no headings: ${what(table)}`);
}

// Text stands out from what is behind it, by 4.5 at least.
const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = numbers(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
for (const element of all("body *")) {
  const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || element.closest("svg, meter, script") || !element.getClientRects().length) continue;
  const [one, two] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
  const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  if (contrast < 4.5) wrong.push(`a contrast of ${contrast.toFixed(2)}: ${what(element)}`);
}

// Nothing is wider than the screen, but for what scrolls by itself.
if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) {
  const far = all("body *").filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".wide, .sides, nav"));
  wrong.push(`the page is wider than the screen: ${far.slice(0, 3).map(what).join(", ")}`);
}
// On a screen that is no phone's, a table fits.
for (const table of innerWidth < 800 ? [] : all(".wide")) {
  if (table.scrollWidth > table.clientWidth + 1) wrong.push(`a table scrolls sideways: ${what(table)}`);
}
// What scrolls can be reached by keys: it has something to focus in it, or takes the focus itself.
for (const element of all(".wide, .sides")) {
  if (element.scrollWidth > element.clientWidth + 1 && element.tabIndex < 0 && !element.querySelector("a, button, input")) {
    wrong.push(`no key scrolls ${what(element)}`);
  }
}
return wrong;
