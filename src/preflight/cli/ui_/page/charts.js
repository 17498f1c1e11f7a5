// Curves over the steps: one chart for each number, a line for each rank or thing that it is of.

import { at, bytes, draw, make, number, seconds } from "./words.js";

const ORDER = ["loss", "learning rate", "gradient norm", "step time", "device memory", "host memory", "loss scale"];
const TITLES = {
  "loss": "Loss", "learning rate": "Learning rate", "gradient norm": "Gradient norm", "step time": "Step time",
  "device memory": "GPU memory", "host memory": "Host memory, resident", "loss scale": "Loss scale",
};
const SHOWN = { "step time": seconds, "device memory": bytes, "host memory": bytes };
const FROM_ZERO = new Set(["step time", "device memory", "host memory"]);
const LOGARITHMIC = new Set(["loss", "gradient norm", "step time", "learning rate"]);
// Recorded when they change: the last value holds until the newest step.
const HELD = new Set(["learning rate", "loss scale"]);
const HEIGHT = 170;
const LEFT = 68;
const BOTTOM = 22;
const TOP = 8;
const COLOURS = 8;
const NEAR = 12;

export class Charts {
  constructor(place) {
    this.place = place;
    this.curves = new Map();
    this.charts = new Map();
    this.alarms = [];
    this.fullest = null; // the device of all ranks that is nearest to its end
    this.waiting = false;
  }

  clear() {
    this.curves.clear();
    this.charts.clear();
    this.place.replaceChildren();
  }

  take(news) {
    for (const gone of news.gone) this.curves.delete(gone);
    for (const piece of news.pieces) {
      const known = this.curves.get(piece.id) || { ...piece, steps: [], values: [] };
      known.steps.length = piece.start;
      known.values.length = piece.start;
      known.steps.push(...piece.steps);
      known.values.push(...piece.values);
      known.places = apart(known.steps);
      this.curves.set(piece.id, known);
    }
    this.soon();
  }

  // Several messages come at once; the page is drawn once for all of them.
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.show(); });
  }

  show() {
    const groups = new Map();
    for (const curve of this.curves.values()) {
      if (!groups.has(curve.chart)) groups.set(curve.chart, []);
      groups.get(curve.chart).push(curve);
    }
    const names = [...groups.keys()].sort((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other));
    at("curves").hidden = names.length === 0;
    const newest = Math.max(1, ...[...this.curves.values()].map((curve) => curve.places[curve.places.length - 1]));
    names.forEach((name, place) => {
      let chart = this.charts.get(name);
      if (!chart) {
        chart = new Chart(name);
        this.charts.set(name, chart);
      }
      if (this.place.children[place] !== chart.element) this.place.insertBefore(chart.element, this.place.children[place] || null);
      chart.show(chosen(name, groups.get(name), this.fullest), this.alarms, this.fullest ? this.fullest.capacity : null, newest);
    });
    for (const [name, chart] of this.charts) {
      if (!groups.has(name)) { chart.element.remove(); this.charts.delete(name); }
    }
  }
}

// Of many curves the first ranks', so that lines can be told from each other; what is alike on all ranks is one line.
function chosen(name, curves, fullest) {
  let sorted = curves.sort((one, other) => one.rank - other.rank || (one.subject < other.subject ? -1 : 1));
  if (name === "device memory") {
    const own = sorted.filter((one) => fullest && one.rank === fullest.rank && one.subject.startsWith(`${fullest.device} `));
    if (own.length) sorted = own;
  }
  const ranks = new Set(sorted.map((one) => one.rank));
  if (ranks.size > 1 && sorted.every((one) => alike(one, sorted.find((first) => first.subject === one.subject)))) {
    const first = Math.min(...ranks);
    sorted = sorted.filter((one) => one.rank === first).map((one) => ({ ...one, alike: ranks.size }));
  }
  return sorted.slice(0, COLOURS);
}

// One may have come a step further than the other.
function alike(one, other) {
  const length = Math.min(one.steps.length, other.steps.length);
  for (let place = 0; place < length; place += 1) {
    if (one.steps[place] !== other.steps[place] || one.values[place] !== other.values[place]) return false;
  }
  return true;
}

class Chart {
  constructor(name) {
    this.name = name;
    this.said = SHOWN[name] || number;
    this.log = false;
    this.pointed = null;
    this.now = make("span", { class: "now" });
    const head = make("div", { class: "head" }, make("h3", {}, TITLES[name] || name), this.now);
    if (LOGARITHMIC.has(name)) {
      this.button = make("button", { type: "button", "aria-pressed": "false" }, "log");
      this.button.addEventListener("click", () => this.turn());
      head.append(this.button);
    }
    this.svg = draw("svg", { width: "100%", height: HEIGHT, role: "img", tabindex: "0" });
    this.legend = make("p", { class: "legend" });
    this.element = make("figure", { class: "chart", "data-chart": name }, head, this.svg, this.legend);
    // Its width changes with the window, and with the columns that its neighbours make.
    new ResizeObserver(() => { if (this.svg.clientWidth !== this.width) this.again(); }).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  turn() {
    this.log = !this.log;
    this.button.setAttribute("aria-pressed", String(this.log));
    this.again();
  }

  show(curves, alarms, capacity, newest) {
    this.newest = newest;
    this.curves = curves;
    this.svg.classList.toggle("many", curves.length > 4);
    this.alarms = alarms;
    this.capacity = capacity;
    this.again();
  }

  again() {
    const width = this.svg.clientWidth || this.element.clientWidth;
    if (!width || !this.curves) return;
    this.width = width;
    this.scale();
    this.svg.replaceChildren(...this.axes(), ...this.marks(), ...this.lines());
    const first = this.curves[0];
    const last = first.values[first.values.length - 1];
    this.now.textContent = this.curves.length === 1 ? this.said(last) : "";
    this.svg.setAttribute("aria-label", `${TITLES[this.name] || this.name}: ${this.said(last)} at step ${number(first.steps[first.steps.length - 1])}; from ${this.said(this.low)} to ${this.said(this.high)} over the run`);
    this.tell();
  }

  scale() {
    let low = Infinity, high = -Infinity, until = this.newest, since = Infinity;
    for (const curve of this.curves) {
      until = Math.max(until, curve.places[curve.places.length - 1]);
      since = Math.min(since, curve.steps[0]);
      for (const value of curve.values) {
        if (value === null || (this.log && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) { low = 0; high = 1; }
    this.low = low;
    this.high = high;
    if (FROM_ZERO.has(this.name) && !this.log) low = 0;
    // The capacity belongs into the picture where the run comes near it; else it would press the curves to the ground.
    this.limit = this.name === "device memory" && this.capacity && high > this.capacity / 3 ? this.capacity : null;
    if (this.limit) high = Math.max(high, this.limit);
    if (low === high) { const room = Math.abs(low) * 0.1 || 1; low -= FROM_ZERO.has(this.name) ? 0 : room; high += room; }
    if (this.log) { low = Math.log10(Math.max(low, 1e-300)); high = Math.log10(Math.max(high, 1e-300)); if (high - low < 1e-9) high = low + 1; }
    const ticks = this.log ? decades(low, high) : rounds(low, high, this.name.endsWith("memory"));
    this.ticks = ticks;
    this.bottom = Math.min(low, ticks[0]);
    this.top = Math.max(high, ticks[ticks.length - 1]);
    this.since = Math.min(since, 0);
    this.until = until;
  }

  x(step) { return LEFT + (step - this.since) / Math.max(this.until - this.since, 1) * (this.width - LEFT - 8); }

  y(value) {
    const height = this.log ? Math.log10(value) : value;
    return TOP + (this.top - height) / (this.top - this.bottom) * (HEIGHT - TOP - BOTTOM);
  }

  axes() {
    const found = [draw("rect", { class: "ground", x: LEFT, y: TOP, width: Math.max(this.width - LEFT - 8, 0), height: HEIGHT - TOP - BOTTOM })];
    for (const tick of this.ticks) {
      const value = this.log ? 10 ** tick : tick;
      const y = this.y(value);
      found.push(draw("line", { class: "grid", x1: LEFT, x2: this.width - 8, y1: y, y2: y }));
      found.push(draw("text", { class: "y", x: LEFT - 6, y: y + 4 }, this.said(value)));
    }
    const steps = wholes(this.until, this.width > 420 ? 6 : 3);
    steps.forEach((step, place) => {
      const name = place === 0 ? "step 0" : number(step);
      const end = this.x(step) > this.width - 30;
      found.push(draw("text", { class: `x ${place === 0 ? "first" : end ? "last" : ""}`, x: end ? this.width - 8 : this.x(step), y: HEIGHT - 6 }, name));
    });
    return found;
  }

  marks() {
    const found = this.alarms.filter((step) => step <= this.until).map((step) =>
      draw("line", { class: "alarm-line", x1: this.x(step), x2: this.x(step), y1: TOP, y2: HEIGHT - BOTTOM }, draw("title", {}, `alarm at step ${step}`)));
    if (this.limit) {
      const y = this.y(this.limit);
      found.push(draw("line", { class: "limit", x1: LEFT, x2: this.width - 8, y1: y, y2: y }, draw("title", {}, `capacity ${bytes(this.limit)}`)));
    }
    return found;
  }

  lines() {
    return this.curves.flatMap((curve, place) => {
      const pieces = [];
      let points = [];
      curve.values.forEach((value, index) => {
        if (value === null || (this.log && value <= 0)) {
          if (points.length) pieces.push(points);
          points = [];
        } else points.push(`${this.x(curve.places[index]).toFixed(1)},${this.y(value).toFixed(1)}`);
      });
      if (points.length && HELD.has(this.name)) points.push(`${this.x(this.until).toFixed(1)},${points[points.length - 1].split(",")[1]}`);
      if (points.length) pieces.push(points);
      return pieces.map((piece) => piece.length === 1
        ? draw("circle", { class: `curve ${this.look(curve, place)}`, cx: piece[0].split(",")[0], cy: piece[0].split(",")[1], r: 2 })
        : draw("polyline", { class: `curve ${this.look(curve, place)}`, points: piece.join(" ") }));
    });
  }

  look(curve, place) {
    const dashed = curve.subject.endsWith("peak so far") ? " dashed" : "";
    return `l${place % COLOURS + 1}${dashed}`;
  }

  called(curve) {
    const several = new Set(this.curves.map((one) => one.subject)).size > 1;
    const ranks = new Set(this.curves.map((one) => one.rank)).size > 1;
    const of = curve.alike ? `all ${curve.alike} ranks` : ranks ? `rank ${curve.rank}` : "";
    const subject = several || (!of && this.name !== "host memory") ? curve.subject : "";
    return [subject, of].filter(Boolean).join(", ");
  }

  key(event) {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight" && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") { this.point(null); return; }
    const places = this.curves[0].places;
    const known = this.pointed === null ? places.length - 1 : nearest(places, this.pointed) + (event.key === "ArrowLeft" ? -1 : 1);
    this.pointed = places[Math.min(Math.max(known, 0), places.length - 1)];
    this.tell();
  }

  point(x) {
    if (!this.curves) return;
    this.pointed = x === null || x < LEFT - NEAR ? null : this.since + (x - LEFT) / Math.max(this.width - LEFT - 8, 1) * (this.until - this.since);
    this.tell();
  }

  // The legend is the readout: the last values, or those of the step that is pointed at.
  tell() {
    this.svg.querySelectorAll(".cursor, circle.read").forEach((one) => one.remove());
    const parts = [];
    this.curves.forEach((curve, place) => {
      const index = this.pointed === null ? curve.steps.length - 1 : nearest(curve.places, this.pointed);
      const value = curve.values[index];
      const key = draw("svg", { class: "key", "aria-hidden": "true" }, draw("line", { class: `curve ${this.look(curve, place)}`, x1: 0, x2: "100%", y1: 2, y2: 2 }));
      const name = this.called(curve);
      if (this.curves.length > 1 || this.pointed !== null || name) parts.push(make("span", {}, key, `${name} ${this.said(value)}`));
      if (this.pointed !== null) {
        const x = this.x(curve.places[index]);
        if (place === 0) {
          parts.unshift(make("span", {}, `step ${number(curve.steps[index])}`));
          this.svg.append(draw("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
        }
        if (value !== null && !(this.log && value <= 0)) this.svg.append(draw("circle", { class: `read l${place % COLOURS + 1}`, cx: x, cy: this.y(value), r: 3.5 }));
      }
    });
    if (this.limit) parts.push(make("span", {}, make("span", { class: "rule limit" }), `capacity ${bytes(this.limit)}`));
    this.legend.replaceChildren(...parts);
  }
}

// Several values of one step, as with accumulation, lie beside each other up to the next.
function apart(steps) {
  const places = [];
  for (let first = 0, next = 0; first < steps.length; first = next) {
    while (next < steps.length && steps[next] === steps[first]) next += 1;
    for (let one = first; one < next; one += 1) places.push(steps[first] + (one - first) / (next - first));
  }
  return places;
}

function nearest(steps, wanted) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low > 0 && wanted - steps[low - 1] < steps[low] - wanted ? low - 1 : low;
}

function rounds(low, high, binary) {
  const unit = binary ? 2 ** (10 * Math.max(0, Math.floor(Math.log2(Math.max(high, 1)) / 10))) : 1;
  const room = (high - low) / unit / 4;
  const power = 10 ** Math.floor(Math.log10(room));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= room * 0.999) * power * unit;
  const found = [];
  for (let tick = Math.floor(low / step + 1e-9); found.length < 9; tick += 1) {
    found.push(Number((tick * step).toPrecision(12)));
    if (tick * step >= high - step * 1e-9) break;
  }
  return found;
}

function decades(low, high) {
  const every = Math.max(1, Math.ceil((high - low) / 4));
  const found = [];
  for (let tick = Math.floor(low); tick <= Math.ceil(high); tick += every) found.push(tick);
  return found;
}

function wholes(until, most) {
  const room = Math.max(until / most, 1);
  const power = 10 ** Math.floor(Math.log10(room));
  const step = [1, 2, 5, 10].find((one) => one * power >= room * 0.999) * power;
  const found = [];
  for (let tick = 0; tick <= until; tick += step) found.push(tick);
  return found;
}
