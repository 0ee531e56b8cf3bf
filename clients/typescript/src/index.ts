export * from "./api.js";
export * from "./client.js";
