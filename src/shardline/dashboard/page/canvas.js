// Draws the same river on a canvas, where so many shards would make SVG slow. The table beside it
// is then the way for keyboards and screen readers.

import { clock, ownerColour } from "/format.js";

export class CanvasRiver {
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
    for (const band of river.bands) {
      const dimmed = matches !== null && !matches(band.shard);
      if (!dimmed) for (const r of band.ribbons) drawRibbon(pen, colours, r, band);
      for (const segment of band.segments) {
        pen.globalAlpha = (segment.unread ? 0.3 : band.reaches ? 1 : 0.5) * (dimmed ? 0.08 : 1);
        pen.fillStyle = colours.of(segment.owner);
        pen.fillRect(segment.x0, band.y - band.thick / 2, Math.max(segment.x1 - segment.x0, 0.8), band.thick);
      }
    }
    pen.globalAlpha = 1;
    const chosen = river.bands.find((b) => b.shard.id === selectedId);
    if (chosen) {
      pen.strokeStyle = colours.named("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(chosen.x0 - 3, chosen.y - chosen.thick / 2 - 3, Math.max(6, chosen.x1 - chosen.x0 + 6), chosen.thick + 6);
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

function drawRibbon(pen, colours, r, band) {
  const middle = (r.x0 + r.x1) / 2;
  pen.globalAlpha = 0.35;
  pen.strokeStyle = colours.of(band.segments[0]?.owner);
  pen.lineWidth = Math.max(0.6, Math.min(r.t0, r.t1));
  pen.beginPath();
  pen.moveTo(r.x0, r.y0);
  pen.bezierCurveTo(middle, r.y0, middle, r.y1, r.x1, r.y1);
  pen.stroke();
}

// A canvas knows no CSS variables, so each is looked up once a drawing.
class Colours {
  constructor(canvas) {
    this.style = getComputedStyle(canvas);
    this.found = new Map();
  }

  named(name) {
    if (!this.found.has(name)) this.found.set(name, this.style.getPropertyValue(name).trim());
    return this.found.get(name);
  }

  of(owner) {
    return this.named(owner ? ownerColour(owner).slice(4, -1) : "--flow");
  }
}
