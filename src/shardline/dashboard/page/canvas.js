// Draws the same river on a canvas, where so many shards would make SVG slow. A thousand owners'
// colours in lanes of a pixel are noise, so shards are drawn quietly, except those that lag, wait or
// have no owner, and those that the search finds. The table below is the way for keyboards and
// screen readers.

import { clock, isPast, ownerColour } from "/format.js";

const LAGS_SECONDS = 30;
const LEAST_THICK = 2.4;

export class CanvasRiver {
  static hint = "So many shards are drawn quietly: those that stand out lag, wait, or have no owner. Search, or choose a worker above, to light up its shards.";

  constructor(holder, { choose, point }) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    holder.replaceChildren(this.canvas);
    this.canvas.addEventListener("click", (event) => {
      const band = this.bandAt(event);
      if (band) choose(band.shard.id);
    });
    this.canvas.addEventListener("pointermove", (event) => point(this.bandAt(event)?.shard.id ?? null, event));
    this.canvas.addEventListener("pointerleave", () => point(null));
  }

  draw(river, selectedId, matches) {
    this.river = river;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = river.width * scale;
    this.canvas.height = river.height * scale;
    this.canvas.style.width = `${river.width}px`;
    this.canvas.style.height = `${river.height}px`;
    this.canvas.setAttribute("aria-label", `Lineage of ${river.bands.length} shards over time; the table below lists them.`);
    const pen = this.canvas.getContext("2d");
    const colours = new Colours(this.canvas);
    pen.scale(scale, scale);
    this.drawTicks(pen, colours, river);
    const bright = river.bands.filter((band) => (matches ? matches(band.shard) : inTrouble(band.shard, river.leased)));
    for (const band of river.bands) this.drawBand(pen, band, colours.named("--flow"), matches ? 0.1 : 0.34);
    for (const band of bright) {
      const colour = matches && band.shard.owner ? colours.of(band.shard.owner) : colours.named(matches ? "--ink" : "--owner-1");
      this.drawBand(pen, band, colour, 1, LEAST_THICK);
    }
    pen.globalAlpha = 1;
    const chosen = river.bands.find((b) => b.shard.id === selectedId);
    if (chosen) {
      pen.strokeStyle = colours.named("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(chosen.x0 - 3, chosen.y - chosen.thick / 2 - 3, Math.max(6, chosen.x1 - chosen.x0 + 6), chosen.thick + 6);
    }
  }

  drawBand(pen, band, colour, strength, least = 0) {
    const thick = Math.max(band.thick, least);
    pen.fillStyle = pen.strokeStyle = colour;
    for (const r of band.ribbons) drawRibbon(pen, r, strength * 0.6);
    for (const segment of band.segments) {
      pen.globalAlpha = strength * (segment.unread ? 0.45 : 1);
      pen.fillRect(segment.x0, band.y - thick / 2, Math.max(segment.x1 - segment.x0, 0.8), thick);
    }
  }

  drawTicks(pen, colours, river) {
    pen.font = "11px system-ui, sans-serif";
    for (const tick of river.ticks) {
      pen.fillStyle = colours.named("--line");
      pen.fillRect(tick.x, 0, 1, river.inner);
      pen.fillStyle = colours.named("--ink-soft");
      if (tick.x > 20 && tick.x < river.right - 60) pen.fillText(clock(tick.at, tick.fine), tick.x - 16, river.inner + 16);
    }
    pen.fillText("now", river.nowX - 24, river.inner + 16);
  }

  bandAt(event) {
    if (!this.river) return null;
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    let best = null;
    for (const band of this.river.bands) {
      if (x < band.x0 - 3 || x > band.x1 + 3) continue;
      const distance = Math.abs(band.y - y);
      if (distance <= Math.max(3, band.laneHeight / 2) && (!best || distance < Math.abs(best.y - y))) best = band;
    }
    return best;
  }
}

function inTrouble(shard, leased) {
  if (!leased || isPast(shard)) return false;
  return shard.state !== "readable" || !shard.owner || shard.lag_seconds > LAGS_SECONDS;
}

function drawRibbon(pen, r, strength) {
  const middle = (r.x0 + r.x1) / 2;
  pen.globalAlpha = strength;
  pen.lineWidth = Math.max(0.6, Math.min(r.t0, r.t1));
  pen.beginPath();
  pen.moveTo(r.x0, r.y0);
  pen.bezierCurveTo(middle, r.y0, middle, r.y1, r.x1, r.y1);
  pen.stroke();
}

// A canvas knows no CSS variables, so each is resolved once a drawing, through a property that does.
class Colours {
  constructor(canvas) {
    this.canvas = canvas;
    this.found = new Map();
  }

  named(name) {
    if (!this.found.has(name)) {
      this.canvas.style.color = `var(${name})`;
      this.found.set(name, getComputedStyle(this.canvas).color);
    }
    return this.found.get(name);
  }

  of(owner) {
    return this.named(ownerColour(owner).slice(4, -1));
  }
}
