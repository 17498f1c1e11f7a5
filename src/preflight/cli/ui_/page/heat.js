// Step time: a row for each rank, a column for each span of steps.

import { at, draw, make, number, seconds } from "./words.js";

const SHADES = 5;
const LEFT = 64;
const LEAST = 0.25; // from the lightest shade to the darkest, as a share of the fastest step

export class Heat {
  constructor(place) {
    this.place = place;
    this.columns = [];
    new ResizeObserver(() => this.show()).observe(place);
  }

  clear() {
    this.columns = [];
    at("heat").hidden = true;
  }

  take(news) {
    this.columns.length = Math.min(news.start, this.columns.length);
    this.columns.push(...news.columns);
    this.width = news.width;
    this.ranks = news.ranks;
    this.leftOut = news.left_out;
    this.show();
  }

  show() {
    const several = this.ranks && this.ranks.length > 1 && this.columns.length > 1;
    at("heat").hidden = !several;
    if (!several) return;
    const width = this.place.clientWidth;
    if (!width) return;
    const [low, high] = this.range();
    const row = this.ranks.length > 16 ? 13 : 20;
    const height = row * this.ranks.length;
    const cell = (width - LEFT) / this.columns.length;
    const children = [];
    this.columns.forEach((column, span) => column.forEach((value, place) => {
      const shade = value === null ? 0 : Math.min(SHADES, Math.max(1, Math.ceil(SHADES * (value - low) / (high - low))));
      const rect = draw("rect", { class: `warm warm-${shade}`, x: LEFT + span * cell, y: place * row, width: Math.max(cell - 0.5, 0.5), height: row - 2 });
      if (value !== null) rect.append(draw("title", {}, `rank ${this.ranks[place]}, ${this.called(span)}: ${seconds(value)}`));
      children.push(rect);
    }));
    this.ranks.forEach((rank, place) => {
      if (row >= 16 || place % 4 === 0) children.push(draw("text", { x: 0, y: place * row + row / 2 + 3 }, `rank ${rank}`));
    });
    const last = this.columns.length * this.width;
    children.push(draw("text", { class: "x first", x: LEFT, y: height + 16 }, "step 0"), draw("text", { class: "x last", x: width, y: height + 16 }, number(last)));
    const means = this.ranks.map((rank, place) => [rank, mean(this.columns.map((column) => column[place]))]).filter((one) => one[1] !== null);
    means.sort((one, other) => other[1] - one[1]);
    const said = `Mean step time by rank: slowest rank ${means[0][0]} with ${seconds(means[0][1])}, fastest rank ${means[means.length - 1][0]} with ${seconds(means[means.length - 1][1])}`;
    const svg = draw("svg", { width: "100%", height: height + 22, role: "img", "aria-label": said }, ...children);
    const scale = [];
    for (let shade = 1; shade <= SHADES; shade += 1) {
      const until = low + (high - low) * shade / SHADES;
      const key = make("span", { class: `warm-key warm-${shade}` });
      scale.push(make("span", {}, key, shade === SHADES ? `over ${seconds(low + (high - low) * (SHADES - 1) / SHADES)}` : `to ${seconds(until)}`));
    }
    const more = this.leftOut ? [make("p", { class: "soft" }, `${this.leftOut} faster ranks are not shown`)] : [];
    this.place.replaceChildren(svg, make("p", { class: "legend" }, ...scale), make("p", { class: "soft" }, said), ...more);
  }

  called(span) {
    const first = span * this.width;
    return this.width === 1 ? `step ${number(first)}` : `steps ${number(first)} to ${number(first + this.width - 1)}`;
  }

  // From the fastest to nearly the slowest: one hiccup must not make all others look alike. Steps that take the same
  // time but for a few per cent look alike.
  range() {
    const all = this.columns.flat().filter((value) => value !== null).sort((one, other) => one - other);
    const low = all[0];
    const high = all[Math.floor((all.length - 1) * 0.98)];
    return [low, Math.max(high, low * (1 + LEAST))];
  }
}

function mean(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
