// What HTML can't do alone: times in the reader's zone, copying, charts, passages beside answers. No inline handlers, no eval.
"use strict";

// Times: the server writes them in UTC, because only the browser knows the zone.
const asLocal = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const showLocalTimes = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const local = asLocal.format(new Date(time.dateTime));
    if (time.textContent !== local) time.textContent = local;
  }
};
showLocalTimes();
new MutationObserver(showLocalTimes).observe(document.body, { childList: true, subtree: true, characterData: true });

// A page in a hidden tab asks for nothing.
document.addEventListener("htmx:config:request", (event) => {
  if (document.hidden && event.target.id === "poll") event.preventDefault();
});

// Filters of pages that are shown anew apply as soon as they are chosen. Without a script they have a button.
document.addEventListener("change", (event) => {
  if (event.target.form?.matches("[data-live]")) event.target.form.requestSubmit();
});

// Copying: only where there is a script, so the button is made here; again for parts of the page that were replaced.
const addCopyButtons = () => {
  for (const command of document.querySelectorAll("[data-copy]")) {
    if (command.nextElementSibling?.matches(".copy")) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: command.href ? "Copy link" : "Copy", className: "copy small secondary outline" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.href ?? command.textContent);
      button.textContent = "Copied";
    });
    command.after(button);
  }
};
addCopyButtons();
new MutationObserver(addCopyButtons).observe(document.body, { childList: true, subtree: true });

// Charts: stacked bars of a table's body. The first column has the days, cells with `data-value` the amounts.
for (const place of document.querySelectorAll("[data-chart]")) drawChart(place, document.getElementById(place.dataset.chart));

function drawChart(place, body) {
  const amounts = (row) => [...row.querySelectorAll("[data-value]")].map((cell) => Number(cell.dataset.value));
  const rows = [...body.rows];
  const labels = [...body.parentElement.tHead.rows[0].cells].slice(1, 1 + amounts(rows[0]).length).map((cell) => cell.textContent);
  const days = rows.map((row) => Date.parse(`${row.cells[0].textContent}T00:00Z`) / 1000);
  // Each bar begins at zero, so the highest sum is drawn first and the others over it.
  const sums = labels.map((_, last) => rows.map((row) => amounts(row).slice(0, last + 1).reduce((sum, each) => sum + each, 0)));
  const colours = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#76b7b2"];
  const ink = getComputedStyle(document.body).color;
  // As the texts of pages: thin spaces between thousands.
  const asText = (amount) => amount.toLocaleString("en").replaceAll(",", "\u202f");
  const axis = { stroke: ink, grid: { stroke: ink, width: 0.2 }, ticks: { show: false } };
  const bars = uPlot.paths.bars({ size: [0.8, 60] });
  const series = labels.map((label, at) => ({ label, fill: colours[at % colours.length], stroke: colours[at % colours.length], width: 0, paths: bars, points: { show: false } }));
  const size = () => ({ width: Math.max(place.clientWidth, 200), height: 220 });
  const chart = new uPlot({
    ...size(), series: [{}, ...series.reverse()], axes: [{ ...axis, values: (_, times) => times.map((time) => new Date(time * 1000).toISOString().slice(5, 10)) }, { ...axis, values: (_, amounts) => amounts.map(asText) }], cursor: { show: false }, legend: { live: false },
    tzDate: (second) => uPlot.tzDate(new Date(second * 1000), "Etc/UTC"),
    scales: { x: { range: (_, from, to) => [from - 43200, to + 43200] }, y: { range: (_, __, most) => [0, most || 1] } },
  }, [days, ...sums.reverse()], place);
  new ResizeObserver(() => chart.setSize(size())).observe(place);
}

// Comparison: a line from each hit to the equal one on the other side, again whenever one of them moves.
const redrawn = new ResizeObserver(() => drawTwins());
function drawTwins() {
  const picture = document.querySelector(".compared > svg");
  if (!picture) return;
  const { top, width } = picture.getBoundingClientRect();
  const lines = [...document.querySelectorAll(".compared li[id^=a-] > small > .twin")].map((link) => {
    const ends = [link.closest("li"), document.getElementById(link.hash.slice(1))].map((hit) => hit.getBoundingClientRect().top + 12 - top);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", `M0 ${ends[0]}C${width / 2} ${ends[0]} ${width / 2} ${ends[1]} ${width} ${ends[1]}`);
    return line;
  });
  picture.replaceChildren(...lines);
}
const observeTwins = () => { for (const list of document.querySelectorAll(".compared > section")) redrawn.observe(list); };
observeTwins();
document.addEventListener("htmx:after:swap", observeTwins);

// Chips: the passage opens beside the answer, and Escape leads back to the chip. Without a script a chip is a link.
let openedChip = null;
document.addEventListener("click", async (event) => {
  const panel = document.getElementById("passage");
  const chip = event.target.closest("a[data-passage]");
  if (event.target.closest("[data-close]")) closePassage();
  if (!panel || !chip || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openedChip = chip;
  await htmx.ajax("GET", chip.href, { target: "#passage", swap: "innerHTML" });
  panel.querySelector(".cited")?.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && openedChip) closePassage();
});

function closePassage() {
  document.getElementById("passage")?.replaceChildren();
  openedChip?.focus();
  openedChip = null;
}

// A dialog that the page opens keeps the focus. Escape and its links that lead back close it; what opened it gets the focus.
for (const dialog of document.querySelectorAll("dialog[data-back]")) {
  dialog.removeAttribute("open");
  dialog.showModal();
  dialog.addEventListener("click", (event) => {
    if (event.target.closest("a")?.getAttribute("href") !== dialog.dataset.back) return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("close", () => {
    history.replaceState(null, "", dialog.dataset.back);
    document.getElementById(dialog.dataset.opener)?.focus();
  });
}

// A field that names a document suggests those whose name has what is typed.
let suggestion;
document.addEventListener("input", ({ target }) => {
  const list = target.list;
  if (list?.id !== "documents" || [...list.options].some((option) => option.value === target.value)) return;
  clearTimeout(suggestion);
  const address = new URL(list.dataset.choices, location.href);
  address.searchParams.set("q", target.value);
  suggestion = setTimeout(() => htmx.ajax("GET", address.href, { target: list, swap: "innerHTML" }), 250);
});

// Enter asks, and Shift+Enter makes a new line; the Enter that ends the choice of a character does neither. On a screen
// without a keyboard Enter makes a new line, as everywhere there.
const question = document.querySelector("#ask textarea[name=question]");
question?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229 || matchMedia("(pointer: coarse)").matches) return;
  event.preventDefault();
  const button = question.form.querySelector("button:not([name])");
  if (!button.disabled) question.form.requestSubmit(button);
});
// A question that is typed survives the end of a session: the tab keeps it until it was asked, or until somebody signs out.
const keptQuestion = `question of ${location.pathname}`;
if (question && !question.value) question.value = sessionStorage.getItem(keptQuestion) ?? "";
question?.addEventListener("input", () => sessionStorage.setItem(keptQuestion, question.value));
document.addEventListener("submit", (event) => {
  if (event.target.getAttribute("action") !== "/console/sign-out") return;
  sessionStorage.clear();
  indexedDB.deleteDatabase("kb-console");
});

// Answers: the address is that of the conversation or the run as soon as it has begun; saving the form beside keeps it.
const triedForm = document.querySelector("form[data-tried]");
document.addEventListener("asked", (event) => {
  sessionStorage.removeItem(keptQuestion);
  history.replaceState(null, "", event.detail.data);
  if (triedForm) triedForm.action = event.detail.data;
  if (!("keepsQuestion" in event.target.dataset)) event.target.elements.question.value = "";
});
// An answer that does not arrive: the page says so, and the form keeps a question that was not asked.
for (const name of ["htmx:error", "htmx:sse:error"]) document.addEventListener(name, (event) => {
  const refused = document.getElementById("refused");
  if (refused && event.target.id === "ask") refused.textContent = "The console was not reached, or the connection was lost. Reload the page, or ask again.";
});
// What is tried is what was saved: the page says so as soon as the form differs from it.
if (triedForm && document.getElementById("unsaved").hidden) {
  const differs = (field) => {
    if (field.options) return [...field.options].some((option) => option.selected !== option.defaultSelected);
    if (field.type === "checkbox") return field.checked !== field.defaultChecked;
    return "defaultValue" in field && field.value !== field.defaultValue;
  };
  const compare = () => (document.getElementById("unsaved").hidden = ![...triedForm.elements].some(differs));
  triedForm.addEventListener("input", compare);
  compare();
}
document.getElementById("choice")?.addEventListener("change", () => {
  const chosen = new URLSearchParams();
  for (const [name, value] of new FormData(document.getElementById("ask"))) {
    if (["with", "kb", "model", "document"].includes(name) && value) chosen.append(name, value);
  }
  history.replaceState(null, "", `?${chosen}`);
  const names = [...[...document.querySelectorAll("#choice option:checked:not([value='']), #choice :checked + bdi")].map((each) => each.textContent), ...chosen.getAll("model"), ...chosen.getAll("document")];
  if (!["with", "kb", "document"].some((name) => chosen.has(name))) names.push("all knowledge bases");
  document.getElementById("chosen").textContent = names.join(", ");
});

// A passage that the address names gets the focus.
document.querySelector(".cited")?.focus();
