import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { chosenTheme, showTheme } from "./theme";
import "./styles/theme.css";
import "./styles/layout.css";
import "./styles/chat.css";
import "./styles/cards.css";
import "./styles/approvals.css";
import "./styles/files.css";
import "./styles/turns.css";

showTheme(chosenTheme());
createRoot(document.getElementById("page")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
