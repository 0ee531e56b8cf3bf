// Draws every chart of the page from the JSON beside it, one after the other.
"use strict";

const NARROW = 560;
const finger = matchMedia("(pointer: coarse)").matches;

function fitted(layout, width) {
  const fit = structuredClone(layout);
  // A finger that moves over a chart means to scroll the page.
  if (finger) fit.dragmode = false;
  if (width < NARROW) {
    fit.font.size = 12;
    fit.xaxis.nticks = 5;
    fit.yaxis.nticks = 6;
    if (fit.legend) {
      Object.assign(fit.legend, { itemwidth: 30, font: { size: 11 } });
      Object.assign(fit.margin, { l: 32, r: 18 });
    }
    // One box with all policies would cover a small chart.
    if (fit.hovermode) fit.hovermode = "closest";
  }
  return fit;
}

async function drawAll() {
  for (const box of document.querySelectorAll(".chart")) {
    const { data, layout } = JSON.parse(box.querySelector("script").textContent);
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    box.append(canvas);
    if (box.clientWidth < NARROW / 2) {
      for (const trace of data) if (trace.textfont) trace.textfont.size = 10;
    }
    await Plotly.newPlot(canvas, data, fitted(layout, box.clientWidth), {
      responsive: true,
      displaylogo: false,
      displayModeBar: box.clientWidth < NARROW / 2 || finger ? false : "hover",
      modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    });
    // The page stays alive while it is drawn.
    await new Promise((done) => setTimeout(done));
  }
  document.documentElement.dataset.drawn = "yes";
}

drawAll();
