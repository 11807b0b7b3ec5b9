// Tables that are brought up to date in place: a row keeps its elements, so that a button stays under the finger and
// keeps the focus while the numbers around it change. Texts are put in as text, never as HTML.

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A sentence; the commands in it, which stand between backticks, are set as code. */
export function setSentence(element, sentence) {
  if (element.said === sentence) return;
  element.said = sentence;
  element.replaceChildren(...sentence.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part)));
}

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

/** Puts the children into this order, moving none that stands right already. */
export function arrange(parent, children) {
  children.forEach((child, i) => {
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

const classOf = ({ number, long }) => [number && "number", long && "long"].filter(Boolean).join(" ");

/**
 * One body of the table for every item, found again by its name.
 *
 * columns: {label, text(item, facts)} or {label, fill(cell, item, facts)}; number: its figures stand at the right;
 * long: it has a line of its own on a card; tall: the note stands beside it.
 * note(item): a sentence under the row, or "". The roles are said, because narrow screens show rows as cards.
 */
export class LivingTable {
  constructor(table, columns, nameOf, note = () => "") {
    Object.assign(this, { table, columns, nameOf, note, bodies: new Map() });
    table.setAttribute("role", "table");
    table.classList.add("living");
    const headings = columns.map((column) =>
      make("th", { scope: "col", role: "columnheader", class: classOf(column) }, column.label));
    this.head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...headings));
    table.replaceChildren(this.head);
  }

  show(items, facts) {
    const bodies = items.map((item) => this.#shown(item, facts));
    const names = new Set(items.map(this.nameOf));
    for (const name of [...this.bodies.keys()]) if (!names.has(name)) this.bodies.delete(name);
    arrange(this.table, [this.head, ...bodies]);
  }

  #shown(item, facts) {
    const name = this.nameOf(item);
    if (!this.bodies.has(name)) this.bodies.set(name, this.#body());
    const body = this.bodies.get(name);
    this.columns.forEach((column, i) => {
      const cell = body.rows[0].cells[i];
      if (column.fill) column.fill(cell, item, facts);
      else setText(cell, column.text(item, facts));
    });
    const note = this.note(item);
    setSentence(body.rows[1].cells[0], note);
    body.rows[1].hidden = !note;
    return body;
  }

  #body() {
    const cells = this.columns.map((column, i) => make(i ? "td" : "th", {
      role: i ? "cell" : "rowheader", "data-label": column.label, class: classOf(column),
      ...(i ? {} : { scope: "row" }), ...(column.tall ? { rowspan: "2" } : {}),
    }));
    const beside = this.columns.filter((column) => !column.tall).length;
    const note = make("td", { role: "cell", colspan: String(beside) });
    return make("tbody", { role: "rowgroup" },
      make("tr", { role: "row" }, ...cells), make("tr", { role: "row", class: "reason", hidden: "" }, note));
  }
}
