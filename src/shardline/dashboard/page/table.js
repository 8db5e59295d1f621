// The table of shards: searched, sorted, and updated in place so that focus and scrolling stay.

import { count, duration, element, isPast, ownerColour, ownerStriped, percent, rate, setText, stateWords, workerName } from "/format.js";

const COLUMNS = [
  { name: "Shard", key: (s) => s.id, cell: (s) => s.id, kind: "mono" },
  { name: "State", key: (s) => `${isPast(s) ? 1 : 0}${stateWords(s)}`, cell: stateWords, kind: "state" },
  { name: "Owner", key: (s) => s.owner ?? "~", cell: (s) => (s.owner ? workerName(s.owner) : "–"), kind: "owner", leased: true },
  { name: "Epoch", key: (s) => s.epoch ?? -1, cell: (s) => (s.epoch === null ? "–" : String(s.epoch)), kind: "number", leased: true },
  { name: "Lag", key: (s) => s.lag_seconds ?? -1, cell: (s) => duration(s.lag_seconds), kind: "number", leased: true },
  { name: "Rec/s", key: (s) => s.records_per_second ?? -1, cell: (s) => rate(s.records_per_second), kind: "number" },
  { name: "Hash", key: (s) => s.hash_start ?? -1, cell: (s) => percent(share(s)), kind: "number" },
  { name: "Age", key: (s) => -(s.opened_at ?? 0), cell: (s, now) => duration(s.opened_at === null ? null : now - s.opened_at), kind: "number" },
];

function share(shard) {
  return shard.hash_start === null ? null : shard.hash_end - shard.hash_start;
}

export class ShardTable {
  constructor({ choose, searched }) {
    this.choose = choose;
    this.rows = new Map();
    this.sortedBy = 0;
    this.descending = false;
    this.body = document.getElementById("shard-rows");
    this.search = document.getElementById("search");
    this.headers = document.getElementById("shard-headers");
    this.search.addEventListener("input", () => {
      this.draw();
      searched();
    });
    document.getElementById("scope").addEventListener("change", () => this.draw());
    this.body.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(snapshot, selectedId) {
    this.snapshot = snapshot;
    this.selectedId = selectedId;
    this.draw();
  }

  draw() {
    if (!this.snapshot) return;
    const { shards, app, at } = this.snapshot;
    const columns = COLUMNS.filter((column) => app !== null || !column.leased);
    this.drawHeaders(columns);
    const shown = this.chosen(shards).sort(this.order());
    const place = document.getElementById("shard-count");
    setText(place, shown.length === shards.length ? count(shards.length) : `${count(shown.length)} of ${count(shards.length)}`);
    document.getElementById("no-shards").hidden = shown.length > 0;
    const present = new Set(shown.map((s) => s.id));
    for (const [id, row] of this.rows) {
      if (!present.has(id)) {
        row.remove();
        this.rows.delete(id);
      }
    }
    const focusable = present.has(this.focusedId) ? this.focusedId : shown[0]?.id;
    let before = null;
    for (const shard of shown) {
      const row = this.rowOf(shard, columns);
      this.fillRow(row, shard, columns, at);
      row.tabIndex = shard.id === focusable ? 0 : -1;
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== row) this.body.insertBefore(row, next);
      before = row;
    }
  }

  chosen(shards) {
    const matches = this.matcher();
    if (matches) return shards.filter(matches);
    const scope = document.querySelector("input[name=scope]:checked").value;
    return shards.filter((shard) => scope === "all" || !isPast(shard));
  }

  // What the search finds, in the table and lit up in the river; null when nothing is searched.
  matcher() {
    const words = this.search.value.trim().toLowerCase();
    if (!words) return null;
    return (shard) => `${shard.id} ${shard.owner ?? ""} ${stateWords(shard)}`.toLowerCase().includes(words);
  }

  searchFor(words) {
    this.search.value = this.search.value === words ? "" : words;
    this.search.dispatchEvent(new Event("input"));
  }

  order() {
    const { key } = COLUMNS[this.sortedBy];
    const sign = this.descending ? -1 : 1;
    return (a, b) => {
      const [x, y] = [key(a), key(b)];
      return x < y ? -sign : x > y ? sign : 0;
    };
  }

  drawHeaders(columns) {
    const wanted = columns.map((c) => c.name).join();
    if (this.headed !== wanted) {
      this.headed = wanted;
      this.rows.forEach((row) => row.remove());
      this.rows.clear();
      this.headers.replaceChildren(...columns.map((column) => {
        const button = element("button", { type: "button", class: "sort", text: column.name });
        button.addEventListener("click", () => {
          const index = COLUMNS.indexOf(column);
          this.descending = this.sortedBy === index ? !this.descending : false;
          this.sortedBy = index;
          this.draw();
        });
        return element("th", { scope: "col", class: column.kind, "data-column": column.name }, button);
      }));
    }
    for (const header of this.headers.children) {
      const mine = header.dataset.column === COLUMNS[this.sortedBy].name;
      header.setAttribute("aria-sort", mine ? (this.descending ? "descending" : "ascending") : "none");
    }
  }

  rowOf(shard, columns) {
    let row = this.rows.get(shard.id);
    if (!row) {
      const cells = columns.map((column, index) => index === 0
        ? element("th", { scope: "row", class: column.kind })
        : element("td", { class: column.kind }));
      row = element("tr", { "data-shard": shard.id }, ...cells);
      row.addEventListener("click", () => this.choose(shard.id));
      row.addEventListener("focus", () => { this.focusedId = shard.id; });
      this.rows.set(shard.id, row);
    }
    return row;
  }

  fillRow(row, shard, columns, now) {
    const chosen = shard.id === this.selectedId;
    row.className = `state-${shard.state}${chosen ? " selected" : ""}`;
    row.setAttribute("aria-selected", String(chosen));
    columns.forEach((column, index) => {
      const cell = row.children[index];
      setText(cell, column.cell(shard, now));
      if (column.kind === "owner") paintOwner(cell, shard.owner);
    });
  }

  onKey(event) {
    const row = event.target.closest("tr");
    if (!row) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(row.dataset.shard);
      return;
    }
    const next = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? row.previousElementSibling : null;
    if (!next) return;
    event.preventDefault();
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

export function paintOwner(cell, owner) {
  cell.classList.toggle("owned", Boolean(owner));
  cell.classList.toggle("striped", Boolean(owner) && ownerStriped(owner));
  if (owner) cell.style.setProperty("--colour", ownerColour(owner));
}
