// Numbers, times and elements: everything is put into the page as text, never as markup.

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
const SVG = "http://www.w3.org/2000/svg";

export function bytes(value) {
  if (value === null || value === undefined) return "";
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < SIZES.length - 1) { size /= 1024; unit += 1; }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${SIZES[unit]}`;
}

export function number(value) {
  if (value === null || value === undefined) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2).replace("e+", "e");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${Number((value * 1e6).toPrecision(3))} µs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))} ms`;
  if (value < 120) return `${Number(value.toPrecision(3))} s`;
  return span(value);
}

export function span(value) {
  const whole = Math.max(0, Math.round(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} days ${Math.floor(whole / 3600) % 24} h`;
}

export function clock(at) {
  const when = new Date(at * 1000);
  const today = new Date().toDateString() === when.toDateString();
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return today ? time : `${when.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((one) => one !== null && one !== undefined));
  return element;
}

export function at(id) {
  return document.getElementById(id);
}

export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}
