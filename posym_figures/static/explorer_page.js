// Starts the explorers of a page.
import { startAll } from "./core.js";
import explorer from "./explorer.js";

startAll("posym-explorer-data", explorer.start);
