// Draws every chart of the page from the JSON beside it, one after the other.
"use strict";

const NARROW = 560;

function fitted(layout, width) {
  const fit = structuredClone(layout);
  if (width < NARROW) {
    fit.font.size = 12;
    if (fit.legend) Object.assign(fit.legend, { itemwidth: 30, font: { size: 11 } });
    fit.xaxis.nticks = 5;
    fit.yaxis.nticks = 6;
    fit.yaxis.title = undefined; // it stands above the chart instead
    if (fit.showlegend !== false) fit.margin.l = 42;
    // One box with all policies would cover a small chart.
    if (fit.hovermode) fit.hovermode = "closest";
  }
  return fit;
}

async function drawAll() {
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  for (const box of document.querySelectorAll(".chart")) {
    const { data, layout } = JSON.parse(box.querySelector("script").textContent);
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    box.append(canvas);
    box.classList.toggle("narrow", box.clientWidth < NARROW);
    await Plotly.newPlot(canvas, data, fitted(layout, box.clientWidth), config);
    // The page stays alive while it is drawn.
    await new Promise((done) => setTimeout(done));
  }
  document.documentElement.dataset.drawn = "yes";
}

drawAll();
