// Starts the models of several hops on a page.
import { startAll } from "../../../posym_figures/static/core.js";
import { start } from "./hops.js";

startAll("posym-hops-data", start);
