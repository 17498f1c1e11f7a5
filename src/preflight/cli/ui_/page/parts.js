// The parts of the page that are words and tables.

import { at, bytes, clock, draw, make, number, seconds, span, tell } from "./words.js";

const SILENT = 60;
const SIMPLE = { running: "running", finished: "finished", failed: "failed", killed: "killed", stopped: "stopped", ended: "ended" };

export function showRun(run, skew) {
  const top = at("top");
  // A program can end well that trained wrongly.
  const look = run.verdict === "NO-GO" ? "wrong" : run.state;
  top.className = `top ${look}`;
  at("state").className = `badge ${look}`;
  at("state").textContent = run.waiting ? "waiting" : SIMPLE[run.state];
  at("program").textContent = run.program;
  tell(at("command"), run.command || run.path);
  tell(at("verdict"), run.verdict ? `${run.verdict}${run.advice ? `: ${run.advice}` : ""}` : "");
  const waiting = run.waiting ? "The program has not used PyTorch yet." : run.reading ? "Reading what was recorded so far." : "";
  tell(at("said"), waiting || run.said || "");
  at("said").className = !run.reading && ["failed", "killed", "stopped"].includes(run.state) ? "bad" : "";
  showTimes(run, skew);
}

export function showTimes(run, skew) {
  const now = Date.now() / 1000 - skew;
  const parts = [];
  if (run.started) parts.push(`started ${clock(run.started)}`);
  const end = run.ended || (run.state === "running" ? now : run.seen);
  if (run.started && end) parts.push(`${run.state === "running" ? "for" : "took"} ${span(end - run.started)}`);
  const age = run.seen ? now - run.seen : null;
  if (run.state === "running" && age !== null) parts.push(`last seen ${span(age)} ago`);
  tell(at("when"), parts.join(" · "));
  const silent = run.state === "running" && age !== null && age > SILENT && !run.reading;
  tell(at("silent"), silent ? `Nothing was recorded for ${span(age)}. If a step does not take that long, the program may hang: preflight investigate hang shows who waits for whom.` : "");
}

export function showFigures(figures, alarms) {
  const tiles = [tile("step", number(figures.step), figures.iterations > figures.step + 1 ? `${number(figures.iterations)} iterations` : "")];
  const speed = figures.speed;
  const each = figures.ranks > 1 ? ", a rank" : "";
  if (speed && speed.steps) tiles.push(speed.steps >= 1 ? tile("steps/s", number(speed.steps), `${seconds(speed.seconds)} an iteration`) : tile("a step", seconds(1 / speed.steps), `${number(speed.steps * 3600)} an hour`));
  if (speed && speed.tokens) tiles.push(tile(`tokens/s${each}`, number(Math.round(speed.tokens)), `batches of ${speed.shape.join(" × ")}`));
  else if (speed && speed.samples) tiles.push(tile(`samples/s${each}`, number(speed.samples), ""));
  for (const name of ["loss", "learning rate", "gradient norm"]) {
    if (name in figures.latest) tiles.push(tile(name, number(figures.latest[name]), "", figures.latest[name] === null));
  }
  const device = figures.devices;
  if (device) tiles.push(memoryTile(device, figures.ranks > 1));
  if (figures.resident) tiles.push(tile("host memory", bytes(figures.resident), figures.ranks > 1 ? "of the largest rank" : "resident"));
  if (figures.ranks > 1 || figures.world > 1) {
    const slow = figures.slowest && figures.slowest.ratio > 1.05 ? `rank ${figures.slowest.rank} is ${figures.slowest.ratio.toFixed(2)} × the median` : "";
    tiles.push(tile("ranks", figures.ranks === figures.world ? String(figures.ranks) : `${figures.ranks} of ${figures.world}`, slow));
  }
  if (alarms) {
    const kinds = [[alarms.errors, "error"], [alarms.warnings, "warning"]].filter(([count]) => count).map(([count, name]) => `${count} ${name}${count === 1 ? "" : "s"}`);
    const all = alarms.shown.length + alarms.left;
    tiles.push(tile(all === 1 ? "alarm" : "alarms", String(all), kinds.join(", "), alarms.errors > 0));
  }
  at("tiles").replaceChildren(...tiles);
}

function tile(name, value, more, bad = false) {
  return make("li", { class: bad ? "bad-tile" : null, "data-tile": name }, make("span", {}, name), make("b", {}, value), more ? make("span", { class: "of" }, more) : null);
}

function memoryTile(device, several) {
  const held = device.reserved ?? device.allocated;
  const share = device.capacity ? held / device.capacity : null;
  const of = device.capacity ? ` of ${bytes(device.capacity)}` : "";
  const item = tile(`GPU memory${several ? `, rank ${device.rank}` : ""}`, bytes(device.allocated), `reserved ${bytes(held)}${of}; peak ${bytes(device.peak)}`, share !== null && share > 0.97);
  if (share !== null) item.append(make("span", { class: "meter" }, draw("svg", { role: "img", "aria-label": `${Math.round(100 * share)} % of the memory is reserved`, viewBox: "0 0 100 6", preserveAspectRatio: "none" }, draw("rect", { class: "allocated", width: Math.min(100, 100 * share), height: 6 }))));
  return item;
}

const articles = new Map(); // by their number: what was told, without how often, and the element

export function showAlarms(alarms) {
  const all = alarms.shown.length + alarms.left;
  at("alarms").hidden = all === 0;
  at("alarms-title").textContent = all === 1 ? "1 alarm" : `${all} alarms`;
  const list = at("alarm-list");
  alarms.shown.forEach((alarm, place) => {
    const article = articleOf(alarm);
    if (list.children[place] !== article) list.insertBefore(article, list.children[place] || null);
  });
  while (list.children.length > alarms.shown.length) list.lastElementChild.remove();
  if (alarms.left) list.append(make("p", { class: "soft" }, `and ${alarms.left} more; preflight monitor check shows all`));
  return all;
}

// What is on the page stays there while it is only seen more often: somebody may be reading it, or stand in it with a key.
function articleOf(alarm) {
  const told = JSON.stringify({ ...alarm, place: "" });
  const known = articles.get(alarm.index);
  if (known && known.told === told) {
    known.element.querySelector(".place").textContent = alarm.place;
    return known.element;
  }
  const element = alarmArticle(alarm, known ? known.element.querySelector("details").open : false);
  if (known) known.element.replaceWith(element);
  articles.set(alarm.index, { told, element });
  return element;
}

function alarmArticle(alarm, open) {
  const head = make("h3", {}, make("span", { class: "kind" }, `${alarm.kind} ${alarm.index}:`), ` ${alarm.message}`);
  const article = make("article", { class: alarm.severity }, head, make("p", { class: "place" }, alarm.place));
  const hint = alarm.details.find(([name]) => name === "hint");
  if (hint) article.append(make("p", {}, make("strong", {}, "hint: "), hint[1]));
  if (alarm.snippet.length) {
    const lines = alarm.snippet.flatMap((line) => [make("span", { class: "no" }, line.no), " ", make("span", { class: line.here ? "here" : null }, line.text), "\n"]);
    article.append(make("pre", { tabindex: "0", "aria-label": "Source" }, ...lines));
  }
  const rows = alarm.details.filter(([name]) => name !== "hint").map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text)));
  const parts = [make("table", {}, make("tbody", {}, ...rows))];
  if (alarm.others.length) {
    const count = alarm.others.length + alarm.others_left;
    parts.push(make("p", {}, `${count} more that began with it, often of the same cause:`), make("ul", {}, ...alarm.others.map((one) => make("li", {}, one))));
  }
  article.append(make("details", { open }, make("summary", {}, "What was expected, what was seen, and why"), ...parts));
  return article;
}

const COLUMNS = [
  ["rank", "rank", (row) => String(row.rank)],
  ["state", "state", (row) => (row.starts > 1 ? `${row.state}, start ${row.starts}` : row.state)],
  ["step", "step", (row) => (row.step === null || row.step === undefined ? "" : number(row.step))],
  ["behind", "behind", (row) => (row.behind ? `${number(row.behind)} iterations` : "")],
  ["an iteration", "an iteration", (row) => seconds(row.seconds)],
  ["GPU memory", "GPU memory", (row) => (row.device ? `${bytes(row.allocated)}, peak ${bytes(row.peak)}` : "")],
  ["host memory", "host memory", (row) => bytes(row.resident)],
  ["process", "process", (row) => (row.pid === undefined ? "" : `${row.pid} on ${row.host}`)],
  ["error", "error", (row) => row.error || ""],
];

export function showRanks(ranks) {
  const section = at("ranks");
  section.hidden = ranks.shown.length === 0;
  const used = COLUMNS.filter(([, , of]) => ranks.shown.some((row) => of(row)));
  section.querySelector("thead tr").replaceChildren(...used.map(([, name]) => make("th", { scope: "col" }, name)));
  section.querySelector("tbody").replaceChildren(...ranks.shown.map((row) => make("tr", { class: row.trouble ? "trouble" : null },
    ...used.map(([id, name, of]) => {
      const text = of(row);
      if (id === "rank") return make("th", { scope: "row", "data-title": "rank" }, text);
      return make("td", { class: `${id === "state" ? "state" : id === "error" ? "wide" : ""}${text ? "" : " none"}`, "data-title": id === "state" ? null : name }, text);
    }))));
  tell(at("ranks-left"), ranks.left ? `${ranks.shown.length} of ${ranks.shown.length + ranks.left} ranks are shown, those in trouble first` : "");
}

export function showAbout(about) {
  at("about").hidden = false;
  at("about").querySelector("tbody").replaceChildren(...about.rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row", class: "name" }, name), make("td", { class: "wide" }, value))));
  at("notes").replaceChildren(...about.notes.map((note) => make("li", {}, note)));
}
