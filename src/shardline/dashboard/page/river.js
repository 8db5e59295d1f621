// Draws the river as SVG: one group for each shard, kept as long as the shard is there, so that the
// keyboard's focus survives every update.

import { shortShardId, clock, duration, isPast, ownerColour, ownerStriped, sentence, stateWords, svg, workerName } from "/format.js";

export class SvgRiver {
  static hint = "Left to right is time, top to bottom the hash space. Colour is the worker that read it, grey was read before this page watched, pale is not read yet. Arrow keys move between shards.";

  constructor(holder, { choose, point }) {
    this.choose = choose;
    this.point = point;
    this.groups = new Map();
    this.focusedId = null;
    this.ticks = svg("g", { class: "ticks", "aria-hidden": "true" });
    this.ribbons = svg("g", { class: "ribbons", "aria-hidden": "true" });
    this.shards = svg("g", { class: "shards" });
    this.root = svg("svg", { role: "group", "aria-label": "Lineage over time", "aria-describedby": "river-hint" },
      patterns(), this.ticks, this.ribbons, this.shards);
    holder.replaceChildren(this.root);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  draw(river, selectedId, matches) {
    this.river = river;
    this.root.setAttribute("width", river.width);
    this.root.setAttribute("height", river.height);
    this.root.setAttribute("viewBox", `0 0 ${river.width} ${river.height}`);
    this.drawTicks(river);
    let number = 0;
    this.ribbons.setAttribute("class", matches ? "ribbons dimmed" : "ribbons");
    const blended = river.bands.length <= 120;
    this.ribbons.replaceChildren(...river.bands.flatMap((band) => band.ribbons.flatMap((r) => ribbon(r, band, blended ? number++ : null))));
    const present = new Set();
    if (!river.bands.some((b) => b.shard.id === this.focusedId)) {
      this.focusedId = (river.bands.find((b) => b.reaches) ?? river.bands[0])?.shard.id ?? null;
    }
    for (const band of river.bands) {
      present.add(band.shard.id);
      this.drawShard(band, river, selectedId, matches !== null && !matches(band.shard));
    }
    for (const [id, group] of this.groups) {
      if (!present.has(id)) {
        group.remove();
        this.groups.delete(id);
      }
    }
  }

  drawTicks(river) {
    const lines = river.ticks.flatMap((tick) => [
      svg("line", { x1: tick.x, x2: tick.x, y1: 0, y2: river.inner }),
      svg("text", { x: tick.x, y: river.inner + 17, "text-anchor": tick.x < 24 ? "start" : tick.x > river.right - 70 ? "end" : "middle", text: tick.x > river.right - 34 ? "" : clock(tick.at, tick.fine) }),
    ]);
    this.ticks.replaceChildren(
      ...lines,
      svg("line", { class: "now", x1: river.nowX, x2: river.nowX, y1: 0, y2: river.inner }),
      svg("text", { class: "now", x: river.nowX, y: river.inner + 17, "text-anchor": "end", text: "now" }),
    );
  }

  drawShard(band, river, selectedId, dimmed) {
    const { shard } = band;
    let group = this.groups.get(shard.id);
    if (!group) {
      group = svg("g", { role: "button" });
      group.addEventListener("click", () => this.choose(shard.id));
      group.addEventListener("pointermove", (event) => this.point(shard.id, event));
      group.addEventListener("pointerleave", () => this.point(null));
      group.addEventListener("focus", () => this.setFocused(shard.id));
      this.groups.set(shard.id, group);
      this.shards.append(group);
    }
    group.setAttribute("class", `shard state-${shard.state}${band.reaches ? " alive" : ""}${shard.id === selectedId ? " selected" : ""}${dimmed ? " dimmed" : ""}`);
    group.setAttribute("data-shard", shard.id);
    group.setAttribute("data-owner", shard.owner ? workerName(shard.owner) : "");
    group.setAttribute("aria-label", sentence(shard));
    group.setAttribute("aria-pressed", String(shard.id === selectedId));
    group.setAttribute("tabindex", shard.id === this.focusedId ? "0" : "-1");
    group.replaceChildren(...shapes(band, river));
  }

  setFocused(id) {
    this.groups.get(this.focusedId)?.setAttribute("tabindex", "-1");
    this.focusedId = id;
    this.groups.get(id)?.setAttribute("tabindex", "0");
  }

  onKey(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.focusedId) this.choose(this.focusedId);
      return;
    }
    const next = this.neighbour(event.key);
    if (!next) return;
    event.preventDefault();
    this.setFocused(next);
    this.groups.get(next)?.focus();
  }

  // Up and down among those that live at the same time, left to a parent, right to a child.
  neighbour(key) {
    const bands = this.river.bands;
    const here = bands.find((b) => b.shard.id === this.focusedId);
    if (!here) return null;
    if (key === "ArrowLeft") return here.shard.parents.find((p) => this.groups.has(p)) ?? null;
    if (key === "ArrowRight") return bands.find((b) => b.shard.parents.includes(here.shard.id))?.shard.id ?? null;
    const sorted = bands.toSorted((a, b) => a.y - b.y || a.x0 - b.x0);
    if (key === "Home") return sorted[0].shard.id;
    if (key === "End") return sorted.at(-1).shard.id;
    const together = sorted.filter((b) => b === here || (b.y !== here.y && b.x0 <= here.x1 && here.x0 <= b.x1));
    const place = together.indexOf(here);
    if (key === "ArrowUp") return together[place - 1]?.shard.id ?? null;
    if (key === "ArrowDown") return together[place + 1]?.shard.id ?? null;
    return null;
  }
}

function shapes(band, river) {
  const { shard, thick, y } = band;
  const made = [
    svg("rect", { class: "target", x: band.x0 - 4, y: y - band.laneHeight / 2, width: Math.max(8, band.x1 - band.x0 + 8), height: Math.max(band.laneHeight, 2) }),
    svg("rect", { class: "ring", x: band.x0 - 3, y: y - thick / 2 - 3, width: Math.max(6, band.x1 - band.x0 + 6), height: thick + 6, rx: 4 }),
  ];
  for (const segment of band.segments) made.push(...segmentShapes(segment, y, thick));
  if (band.reaches && river.labelled) made.push(coloured(svg("circle", { class: "head", cx: band.x1, cy: y, r: Math.min(4.5, thick / 2 + 1.5) }), shard.owner));
  if (river.labelled && band.reaches) {
    const text = svg("text", { class: "label", x: river.right + 12, y: y + 4 });
    text.append(svg("tspan", { class: "label-id", text: shortShardId(shard.id) }));
    const words = shard.owner ? workerName(shard.owner) : ["open", "readable"].includes(shard.state) && shard.epoch === null ? "" : stateWords(shard);
    if (words) text.append(coloured(svg("tspan", { class: shard.owner ? "label-owner" : "label-wait", dx: 7, text: clip(words, 16) }), shard.owner));
    if (shard.lag_seconds !== null && shard.state !== "waiting") text.append(svg("tspan", { class: "label-lag", dx: 7, text: duration(shard.lag_seconds) }));
    made.push(text);
  }
  return made;
}

function segmentShapes(segment, y, thick) {
  const box = { x: segment.x0, y: y - thick / 2, width: Math.max(segment.x1 - segment.x0, 0.8), height: thick, rx: Math.min(2, thick / 2) };
  const kind = `flow${segment.unread ? " unread" : ""}${segment.owner ? "" : " unowned"}`;
  const made = [coloured(svg("rect", { ...box, class: kind }), segment.owner)];
  if (segment.owner && ownerStriped(segment.owner)) made.push(svg("rect", { ...box, fill: "url(#stripes)" }));
  return made;
}

function ribbon(r, band, number) {
  const middle = (r.x0 + r.x1) / 2;
  const edge = (dy0, dy1) => [`${r.x0} ${r.y0 + dy0}`, `${middle} ${r.y0 + dy0}`, `${middle} ${r.y1 + dy1}`, `${r.x1} ${r.y1 + dy1}`];
  const up = edge(-r.t0 / 2, -r.t1 / 2);
  const down = edge(r.t0 / 2, r.t1 / 2);
  const d = `M${up[0]}C${up[1]},${up[2]},${up[3]}L${down[3]}C${down[2]},${down[1]},${down[0]}Z`;
  if (number === null) return [coloured(svg("path", { d, class: "ribbon plain" }), band.segments[0]?.owner)];
  const id = `ribbon-${number}`;
  const blend = svg("linearGradient", { id, gradientUnits: "userSpaceOnUse", x1: r.x0, x2: r.x1, y1: 0, y2: 0 },
    stop("0%", r.parent, r.parent.segments.at(-1)), stop("100%", band, band.segments[0]));
  return [blend, svg("path", { d, class: "ribbon", fill: `url(#${id})` })];
}

// The ribbon begins as its parent looks and ends as its child does.
function stop(offset, band, segment) {
  const { state } = band.shard;
  const pale = state === "waiting" ? 0.16 : segment?.unread ? 0.3 : isPast(band.shard) ? 0.5 : 1;
  const made = svg("stop", { offset, "stop-opacity": pale });
  made.style.setProperty("stop-color", segment?.owner ? ownerColour(segment.owner) : "var(--flow)");
  return made;
}

function coloured(node, owner) {
  if (owner) node.style.setProperty("--colour", ownerColour(owner));
  return node;
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function patterns() {
  return svg("defs", {}, svg("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { class: "stripe", width: 2.4, height: 6 })));
}
