// Line charts in SVG, drawn anew with every event. A line has its name beside it and a dash of its own: its colour says
// nothing that is not said otherwise. What is not known leaves a gap.

import { clock, lasting, secondsBetween, shortly } from "./words.js";
import { make, setText } from "./tables.js";

const HEIGHT = 132, TOP = 8, BOTTOM = 18, LEFT = 52, RIGHT = 8, TICKS = 3;
const SVG = "http://www.w3.org/2000/svg";

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The next round number, 1, 2 or 5 times a power of ten, that is not below x. */
function round(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= x * 0.999);
}

/** Round values that span the points; from 0 where a line is an amount, else closely around them. */
export function ticks(values, fromZero) {
  const low = fromZero ? 0 : Math.min(...values), high = Math.max(...values, fromZero ? 1 : low);
  const step = round(Math.max((high - low) / TICKS, fromZero ? 1 : Math.abs(high) * 1e-3, 1e-9));
  const from = Math.floor(low / step + 1e-9), to = Math.max(Math.ceil(high / step - 1e-9), from + 1);
  return Array.from({ length: to - from + 1 }, (_, i) => (from + i) * step);
}

export class Chart {
  /** lines: [{name, of(point)}]; say: how a value is written; fromZero: whether the axis begins there. */
  constructor(title, lines, say, fromZero = true) {
    Object.assign(this, { title, lines, say, fromZero, points: [], pointed: null });
    this.drawing = draw("svg", { role: "img", height: HEIGHT, width: "100%" });
    this.legend = make("figcaption");
    this.element = make("figure", {}, make("h3", {}, title), this.drawing, this.legend);
    this.drawing.addEventListener("pointermove", (event) => this.#pointAt(event.offsetX));
    this.drawing.addEventListener("pointerleave", () => this.#pointAt(null));
    this.keys = lines.map((line, i) => {
      const key = draw("svg", { width: 22, height: 8, "aria-hidden": "true" });
      key.append(draw("line", { x1: 0, x2: 22, y1: 4, y2: 4, class: `line line-${i}` }));
      const value = make("span");
      this.legend.append(make("span", { class: "key" }, key, value));
      return value;
    });
    this.when = make("span", { class: "note" });
    this.legend.append(this.when);
  }

  show(points, now) {
    Object.assign(this, { points, now });
    this.#redraw();
  }

  #pointAt(x) {
    this.pointed = x;
    this.#redraw();
  }

  #redraw() {
    const width = this.drawing.clientWidth;
    if (!this.points.length || !width) return;
    const times = this.points.map((point) => Date.parse(point.at));
    const first = times[0], last = Math.max(times.at(-1), first + 1000);
    const across = (time) => LEFT + ((time - first) / (last - first)) * (width - LEFT - RIGHT);
    const known = this.lines.flatMap((line) => this.points.map(line.of)).filter((value) => value !== null);
    const marks = known.length ? ticks(known, this.fromZero) : [0, 1];
    const [low, high] = [marks[0], marks.at(-1)];
    const up = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    const xs = times.map(across), chosen = this.#chosen(xs);
    this.drawing.replaceChildren(
      ...this.#axes(marks, up, width, first), ...this.#paths(xs, up), ...this.#pointer(xs, chosen));
    this.#say(chosen, known);
  }

  #axes(marks, up, width, first) {
    const lines = marks.flatMap((mark) => [
      draw("line", { x1: LEFT, x2: width - RIGHT, y1: up(mark), y2: up(mark), class: "grid" }),
      draw("text", { x: LEFT - 6, y: up(mark) + 4, "text-anchor": "end" }, shortly(this.say)(mark)),
    ]);
    const begin = `${lasting(secondsBetween(new Date(first).toISOString(), this.now))} ago`;
    return [...lines, draw("text", { x: LEFT, y: HEIGHT - 3 }, begin),
      draw("text", { x: width - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, clock(this.now, this.now))];
  }

  #paths(xs, up) {
    return this.lines.map((line, i) => {
      let pen = "M";
      const steps = this.points.map((point, j) => {
        const value = line.of(point);
        if (value === null) { pen = "M"; return ""; }
        const step = `${pen}${xs[j].toFixed(1)},${up(value).toFixed(1)}`;
        pen = "L";
        return step;
      });
      return draw("path", { d: steps.join(""), class: `line line-${i}` });
    });
  }

  #chosen(xs) {
    if (this.pointed === null) return this.points.length - 1;
    return xs.reduce((best, x, i) => (Math.abs(x - this.pointed) < Math.abs(xs[best] - this.pointed) ? i : best), 0);
  }

  #pointer(xs, chosen) {
    return this.pointed === null ? [] :
      [draw("line", { x1: xs[chosen], x2: xs[chosen], y1: TOP, y2: HEIGHT - BOTTOM, class: "pointer" })];
  }

  #say(chosen, known) {
    const point = this.points[chosen];
    const value = (line) => (line.of(point) === null ? "not known" : this.say(line.of(point)));
    const said = this.lines.map((line) => `${line.name} ${value(line)}`);
    this.keys.forEach((key, i) => setText(key, said[i]));
    setText(this.when, this.pointed === null ? "" : `at ${clock(point.at, this.now)}`);
    const highest = known.length ? `; highest ${this.say(Math.max(...known))}` : "";
    this.drawing.setAttribute("aria-label", `${this.title}: ${said.join(", ")}${highest}`);
  }
}
