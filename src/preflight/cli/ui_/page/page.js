// Listens to the stream and shows what comes. A new connection brings everything anew, so nothing is lost between two.

import { Charts } from "./charts.js";
import { Heat } from "./heat.js";
import { showAbout, showAlarms, showFigures, showRanks, showRun, showTimes } from "./parts.js";
import { at, clock, make, tell } from "./words.js";

const charts = new Charts(at("charts"));
const heat = new Heat(at("heat-picture"));
const known = { run: null, figures: null, alarms: null, skew: 0, shown: null, first: null, told: null };
let stream = null;

function listen() {
  const asked = new URLSearchParams(location.search).get("recording");
  stream = new EventSource(`events${asked ? `?recording=${encodeURIComponent(asked)}` : ""}`);
  stream.addEventListener("open", () => {
    // What is sent from here on begins at the beginning.
    charts.clear();
    heat.clear();
    link("on", "live");
  });
  stream.addEventListener("error", () => link("off", "no connection; trying again"));
  const on = (name, act) => stream.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("recordings", recordings);
  on("problem", problem);
  on("run", run);
  on("figures", (figures) => { known.figures = figures; charts.fullest = figures.devices; showFigures(figures, known.alarms); });
  on("alarms", alarms);
  on("ranks", showRanks);
  on("about", showAbout);
  on("curves", (news) => charts.take(news));
  on("heat", (news) => heat.take(news));
}

function link(look, text) {
  at("link").className = `link ${look}`;
  tell(at("link"), text);
}

function recordings(told) {
  const missing = told.asked !== null && told.shown === null;
  at("empty").hidden = told.found.length > 0 && !missing;
  at("empty-folder").textContent = told.folder;
  if (told.shown === null) at("shown").hidden = true;
  if (missing && told.found.length) {
    at("empty").hidden = true;
    problem({ text: `There is no recording ${told.asked}`, hint: "choose another one above" });
  }
  const select = at("chosen");
  at("chosen-label").hidden = select.hidden = told.found.length === 0;
  const options = told.found.map((one) => make("option", { value: one.id, selected: one.id === told.shown }, `${one.name} · ${one.state} · ${clock(one.started)}`));
  if (missing) options.unshift(make("option", { value: "", selected: true }, told.asked));
  select.replaceChildren(...options);
  known.shown = told.shown;
  // Whoever looks at one recording hears of a newer one, and is not taken away from it.
  const newest = told.found[0];
  if (known.first === null && newest) known.first = newest.started;
  const newer = newest && newest.id !== told.shown && newest.started > known.first;
  if (newer) at("newer").replaceChildren("A newer recording has begun: ", make("a", { href: `?recording=${encodeURIComponent(newest.id)}` }, newest.name));
  at("newer").hidden = !newer;
}

at("chosen").addEventListener("change", (event) => {
  if (event.target.value) location.search = `?recording=${encodeURIComponent(event.target.value)}`;
});

function problem(told) {
  at("problem").hidden = told === null;
  if (told === null) return;
  at("shown").hidden = true;
  at("problem-text").textContent = told.text;
  tell(at("problem-hint"), told.hint ? `hint: ${told.hint}` : "");
}

function run(told) {
  at("shown").hidden = false;
  known.run = told;
  known.skew = Date.now() / 1000 - told.now;
  showRun(told, known.skew);
  quiet();
  title();
}

function alarms(told) {
  const before = known.told;
  known.alarms = told;
  known.told = showAlarms(told);
  if (before !== null && known.told > before) {
    const last = told.shown[told.shown.length - 1];
    at("alert").textContent = `${last.kind} ${last.index}: ${last.message}`;
  }
  charts.alarms = told.shown.map((one) => one.step);
  charts.soon();
  if (known.figures) showFigures(known.figures, told);
  quiet();
  title();
}

function quiet() {
  const told = known.alarms;
  const none = told && known.told === 0 && known.run && !known.run.waiting;
  tell(at("no-alarms"), none ? (known.run.over ? "No alarms: what could be judged holds." : "No alarms so far.") : "");
}

function title() {
  const count = known.told ? `(${known.told}) ` : "";
  document.title = known.run ? `${count}${known.run.program} · ${known.run.state} · Preflight` : "Preflight";
}

setInterval(() => { if (known.run) showTimes(known.run, known.skew); }, 1000);
listen();
